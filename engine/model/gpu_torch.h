#ifndef HEARTH_ENGINE_MODEL_GPU_TORCH_H_
#define HEARTH_ENGINE_MODEL_GPU_TORCH_H_

#include <string>

#include "absl/status/status.h"

/// LibTorch's part for NVIDIA GPUs, libtorch_cuda.so, which nothing links:
/// where there is a GPU it is loaded, elsewhere all is as without it.

namespace hearth::model {

/// The path in the environment variable HEARTH_TORCH_CUDA; without one,
/// torch_cuda/torch/lib/libtorch_cuda.so beside the binary that runs.
std::string GpuTorchPath();

/// Loads the library at `path`, of the version that the process links.
/// FAILED_PRECONDITION, naming what is missing, if the machine has no driver or
/// the file is not there or cannot be loaded. Must come before the first use of
/// LibTorch, which asks once whether it is there.
absl::Status LoadGpuTorch(const std::string& path);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_GPU_TORCH_H_
