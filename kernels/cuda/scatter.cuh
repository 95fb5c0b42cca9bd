#ifndef HEARTH_KERNELS_CUDA_SCATTER_CUH_
#define HEARTH_KERNELS_CUDA_SCATTER_CUH_

#include <cuda_runtime.h>

#include "kernels/cuda/hearth_cuda.h"

namespace hearth::kernels {

/// Queues the scatter on `stream`, which must belong to the current device, as
/// one kernel. cudaErrorInvalidValue for an unknown element type or a negative
/// size.
cudaError_t LaunchScatter(const HearthCudaScatter& scatter,
                          cudaStream_t stream);

}  // namespace hearth::kernels

#endif  // HEARTH_KERNELS_CUDA_SCATTER_CUH_
