#ifndef HEARTH_KERNELS_CUDA_SAMPLE_CUH_
#define HEARTH_KERNELS_CUDA_SAMPLE_CUH_

#include <cuda_runtime.h>

#include "kernels/cuda/hearth_cuda.h"

namespace hearth::kernels {

/// Each queues a step of sampling a batch on `stream`, which must belong to the
/// current device. cudaErrorInvalidValue for negative sizes, for nodes without
/// lists, and for tables that are too small or no power of two.
cudaError_t LaunchFillTable(const HearthCudaFillTable& fill,
                            cudaStream_t stream);
cudaError_t LaunchLookUp(const HearthCudaLookUp& look_up, cudaStream_t stream);
cudaError_t LaunchCountEdges(const HearthCudaCountEdges& count,
                             cudaStream_t stream);
cudaError_t LaunchSampleLayer(const HearthCudaSampleLayer& layer,
                              cudaStream_t stream);

}  // namespace hearth::kernels

#endif  // HEARTH_KERNELS_CUDA_SAMPLE_CUH_
