#ifndef HEARTH_ENGINE_MODEL_TORCH_ENVIRONMENT_H_
#define HEARTH_ENGINE_MODEL_TORCH_ENVIRONMENT_H_

namespace hearth::model {

/// Makes the environment such that MKL and OpenMP, which read it when they are
/// loaded, give equal results in equal runs and leave idle cores to others. If
/// anything was missing, starts the program anew with `argv`; what the user has
/// set stays. Knows no torch.
void EnsureTorchEnvironment(char** argv);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_TORCH_ENVIRONMENT_H_
