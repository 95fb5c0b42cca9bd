#ifndef HEARTH_ENGINE_MODEL_NEW_TRAIN_STEP_H_
#define HEARTH_ENGINE_MODEL_NEW_TRAIN_STEP_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/train/model_options.h"
#include "engine/train/train_step.h"

namespace hearth::model {

/// Fixes what must be fixed before LibTorch does its first work: MKL's
/// reproducibility mode (MKL_CBWR=AUTO, MKL_DYNAMIC=FALSE), OpenMP threads that
/// sleep while they wait, deterministic algorithms. Call once at the start of
/// main, before any thread; may start the program anew with the environment it
/// needs.
void InitializeTorch(char** argv);

/// A model on the CPU by LibTorch (or, for NoModelOptions, none). Its results
/// depend on the options (not on train_threads), the batches and the processor
/// type alone: not on other models in the process. Exceptions of LibTorch
/// become statuses, out of memory RESOURCE_EXHAUSTED.
absl::StatusOr<std::unique_ptr<train::TrainStep>> NewTrainStep(
    const train::TrainOptions& options, const train::ModelShape& shape);

/// Version of LibTorch.
const char* TorchVersion();

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_NEW_TRAIN_STEP_H_
