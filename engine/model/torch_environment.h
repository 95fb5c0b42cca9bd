#ifndef HEARTH_ENGINE_MODEL_TORCH_ENVIRONMENT_H_
#define HEARTH_ENGINE_MODEL_TORCH_ENVIRONMENT_H_

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

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_TORCH_ENVIRONMENT_H_
