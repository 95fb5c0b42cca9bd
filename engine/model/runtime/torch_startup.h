#ifndef HEARTH_ENGINE_MODEL_RUNTIME_TORCH_STARTUP_H_
#define HEARTH_ENGINE_MODEL_RUNTIME_TORCH_STARTUP_H_

#include <string>

#include "absl/status/status.h"

namespace hearth::model {

/// Sets the environment variables with which MKL, oneDNN and OpenMP, which read
/// them when they are loaded or first used, give equal results in equal runs,
/// keep little memory, and leave idle cores to others. If any was missing,
/// restarts the program with `argv`; variables that the user has set stay.
/// Knows no torch.
void EnsureTorchEnvironment(char** argv);

/// Part of EnsureTorchEnvironment that restarts the program; returns if nothing
/// was missing, or if restarting failed. It calls only functions of the C
/// library that work before anything is initialized, so a program can call it
/// first of all: see early_torch_environment.cc.
void StartWithTorchEnvironment(char** argv, char** environment);

// LibTorch's part for NVIDIA GPUs, libtorch_cuda.so, is not linked: it is
// loaded where there is a GPU.

/// Path in the environment variable HEARTH_TORCH_CUDA; without it,
/// torch_cuda/torch/lib/libtorch_cuda.so next to the running binary.
std::string GpuTorchPath();

/// Loads the library at `path`, which must be of the version that the process
/// links. FAILED_PRECONDITION, naming what is missing, if the machine has no
/// driver, or the file is missing or cannot be loaded. Must be called before
/// the first use of LibTorch, which looks for it only once.
absl::Status LoadGpuTorch(const std::string& path);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_RUNTIME_TORCH_STARTUP_H_
