#ifndef HEARTH_KERNELS_CUDA_GATHER_CUH_
#define HEARTH_KERNELS_CUDA_GATHER_CUH_

#include <cuda_runtime.h>

#include "kernels/cuda/hearth_cuda.h"

namespace hearth::kernels {

/// Queues the gather on `stream`, which must belong to the current device.
/// cudaErrorInvalidValue for an unknown element type or a negative size.
cudaError_t LaunchGather(const HearthCudaGather& gather, cudaStream_t stream);

}  // namespace hearth::kernels

#endif  // HEARTH_KERNELS_CUDA_GATHER_CUH_
