#ifndef HEARTH_ENGINE_MODEL_RUNTIME_TORCH_STARTUP_H_
#define HEARTH_ENGINE_MODEL_RUNTIME_TORCH_STARTUP_H_

#include <string>

#include "absl/status/status.h"

namespace hearth::model {

/// Makes the environment such that MKL, oneDNN and OpenMP, which read it when
/// they are loaded or first used, give equal results in equal runs, keep little
/// memory, and leave idle cores to others. If anything was missing, starts the
/// program anew with `argv`; what the user has set stays. Knows no torch.
void EnsureTorchEnvironment(char** argv);

/// The part of it that starts the program anew, which returns if nothing was
/// missing or that failed. Of the C library it calls only what works before
/// anything is initialized, so that a program can call it first of all: see
/// early_torch_environment.cc.
void StartWithTorchEnvironment(char** argv, char** environment);

/// LibTorch's part for NVIDIA GPUs, libtorch_cuda.so, which nothing links:
/// where there is a GPU it is loaded, elsewhere all is as without it.

/// The path in the environment variable HEARTH_TORCH_CUDA; without one,
/// torch_cuda/torch/lib/libtorch_cuda.so beside the binary that runs.
std::string GpuTorchPath();

/// Loads the library at `path`, of the version that the process links.
/// FAILED_PRECONDITION, naming what is missing, if the machine has no driver or
/// the file is not there or cannot be loaded. Must come before the first use of
/// LibTorch, which asks once whether it is there.
absl::Status LoadGpuTorch(const std::string& path);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_RUNTIME_TORCH_STARTUP_H_
