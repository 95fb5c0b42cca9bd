#ifndef HEARTH_KERNELS_CUDA_EDGES_CUH_
#define HEARTH_KERNELS_CUDA_EDGES_CUH_

#include <cuda_runtime.h>

#include "kernels/cuda/hearth_cuda.h"

/// Sums and products along edges. Each function queues its work on `stream`,
/// which must belong to the current device; cudaErrorInvalidValue for a
/// negative size.

namespace hearth::kernels {

cudaError_t LaunchSum(const HearthCudaSum& sum, cudaStream_t stream);

cudaError_t LaunchDots(const HearthCudaDots& dots, cudaStream_t stream);

}  // namespace hearth::kernels

#endif  // HEARTH_KERNELS_CUDA_EDGES_CUH_
