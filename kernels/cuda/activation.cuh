#ifndef HEARTH_KERNELS_CUDA_ACTIVATION_CUH_
#define HEARTH_KERNELS_CUDA_ACTIVATION_CUH_

#include <cuda_runtime.h>

#include "kernels/cuda/hearth_cuda.h"

namespace hearth::kernels {

/// Queues the activation on `stream`, which must belong to the current device.
/// cudaErrorInvalidValue for a negative count.
cudaError_t LaunchActivate(const HearthCudaActivate& activate,
                           cudaStream_t stream);

/// The same for the gradient.
cudaError_t LaunchActivationGradient(const HearthCudaActivate& activate,
                                     cudaStream_t stream);

}  // namespace hearth::kernels

#endif  // HEARTH_KERNELS_CUDA_ACTIVATION_CUH_
