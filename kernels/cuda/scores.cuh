#ifndef HEARTH_KERNELS_CUDA_SCORES_CUH_
#define HEARTH_KERNELS_CUDA_SCORES_CUH_

#include <cuda_runtime.h>

#include "kernels/cuda/hearth_cuda.h"

/// Attention along edges and its gradients. Each function queues its work on
/// `stream`, which must belong to the current device; cudaErrorInvalidValue for
/// a negative size.

namespace hearth::kernels {

cudaError_t LaunchScores(const HearthCudaScores& scores, cudaStream_t stream);

cudaError_t LaunchSoftmax(const HearthCudaSoftmax& softmax,
                          cudaStream_t stream);

cudaError_t LaunchSoftmaxGradient(const HearthCudaSoftmax& softmax,
                                  cudaStream_t stream);

cudaError_t LaunchScoreGradient(const HearthCudaScoreGradient& gradient,
                                cudaStream_t stream);

}  // namespace hearth::kernels

#endif  // HEARTH_KERNELS_CUDA_SCORES_CUH_
