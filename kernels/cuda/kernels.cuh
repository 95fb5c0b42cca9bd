#ifndef HEARTH_KERNELS_CUDA_KERNELS_CUH_
#define HEARTH_KERNELS_CUDA_KERNELS_CUH_

#include <cuda_runtime.h>

#include "kernels/cuda/hearth_cuda.h"

/// What the plug-in can do, an operation a function. Each queues its work on
/// `stream`, which must belong to the current device, and returns
/// cudaErrorInvalidValue for negative sizes and unknown element types.

namespace hearth::kernels {

/// Moving rows (rows.cu): one kernel each.
cudaError_t LaunchGather(const HearthCudaGather& gather, cudaStream_t stream);
cudaError_t LaunchScatter(const HearthCudaScatter& scatter,
                          cudaStream_t stream);

/// Sums and products along edges, attention and its gradients (edges.cu).
cudaError_t LaunchSum(const HearthCudaSum& sum, cudaStream_t stream);
cudaError_t LaunchDots(const HearthCudaDots& dots, cudaStream_t stream);
cudaError_t LaunchScores(const HearthCudaScores& scores, cudaStream_t stream);
cudaError_t LaunchSoftmax(const HearthCudaSoftmax& softmax,
                          cudaStream_t stream);
cudaError_t LaunchSoftmaxGradient(const HearthCudaSoftmax& softmax,
                                  cudaStream_t stream);
cudaError_t LaunchScoreGradient(const HearthCudaScoreGradient& gradient,
                                cudaStream_t stream);

/// Activation with dropout, and its gradient (activation.cu).
cudaError_t LaunchActivate(const HearthCudaActivate& activate,
                           cudaStream_t stream);
cudaError_t LaunchActivationGradient(const HearthCudaActivate& activate,
                                     cudaStream_t stream);

/// The steps of sampling a batch (sample.cu). cudaErrorInvalidValue also for
/// nodes without lists, and for tables that are too small or no power of two.
cudaError_t LaunchFillTable(const HearthCudaFillTable& fill,
                            cudaStream_t stream);
cudaError_t LaunchLookUp(const HearthCudaLookUp& look_up, cudaStream_t stream);
cudaError_t LaunchCountEdges(const HearthCudaCountEdges& count,
                             cudaStream_t stream);
cudaError_t LaunchSampleLayer(const HearthCudaSampleLayer& layer,
                              cudaStream_t stream);

}  // namespace hearth::kernels

#endif  // HEARTH_KERNELS_CUDA_KERNELS_CUH_
