#ifndef HEARTH_ENGINE_MODEL_TORCH_ENVIRONMENT_H_
#define HEARTH_ENGINE_MODEL_TORCH_ENVIRONMENT_H_

namespace hearth::model {

/// Makes the environment such that MKL, oneDNN and OpenMP, which read it when
/// they are loaded or first used, give equal results in equal runs, keep little
/// memory, and leave idle cores to others. If anything was missing, starts the
/// program anew with `argv`; what the user has set stays. Knows no torch.
void EnsureTorchEnvironment(char** argv);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_TORCH_ENVIRONMENT_H_
