#ifndef HEARTH_ENGINE_MODEL_STEP_NEW_TRAIN_STEP_H_
#define HEARTH_ENGINE_MODEL_STEP_NEW_TRAIN_STEP_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/cuda/device.h"
#include "engine/train/model_options.h"
#include "engine/train/rank_group.h"
#include "engine/train/train_step.h"

namespace hearth::model {

/// Makes the settings that must precede LibTorch's first work: MKL's
/// reproducibility mode (MKL_CBWR=AUTO, MKL_DYNAMIC=FALSE), OpenMP threads that
/// sleep while they wait, deterministic algorithms; loads LibTorch's part for
/// GPUs, if there is a driver (torch_startup.h). Call it once at the start of
/// main, before any thread; it may restart the program with the environment
/// that is needed.
void InitializeTorch(char** argv);

/// A model on the processor by LibTorch (or NewNullStep for NoModelOptions).
/// Its results depend only on the options (but not on train_threads), the
/// batches and the type of processor, not on other models in the process.
/// Exceptions of LibTorch become statuses, out of memory RESOURCE_EXHAUSTED.
absl::StatusOr<std::unique_ptr<train::TrainStep>> NewTrainStep(
    const train::TrainOptions& options, const train::ModelShape& shape);

/// A model on the processor that takes the steps of `ranks`, of which this
/// machine is one: see NewParallelStep. INVALID_ARGUMENT for NoModelOptions,
/// which leave nothing to agree on, and for models on GPUs.
absl::StatusOr<std::unique_ptr<train::TrainStep>> NewRankedStep(
    const train::TrainOptions& options, const train::ModelShape& shape,
    train::RankGroup& ranks);

/// A model on the GPU that the plug-in knows as `device`: see NewDeviceStep.
/// FAILED_PRECONDITION as GpuTraining.
absl::StatusOr<std::unique_ptr<train::TrainStep>> NewGpuStep(
    const train::TrainOptions& options, const train::ModelShape& shape,
    const cuda::Device& device);

/// OK if models can be made on GPUs: InitializeTorch found a driver and
/// LibTorch's part for it. Otherwise FAILED_PRECONDITION with a message for
/// users.
absl::Status GpuTraining();

/// Version of LibTorch.
const char* TorchVersion();

/// What decides how products and sums are rounded on this processor: machines
/// with equal texts take equal steps.
std::string ArithmeticName();

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_STEP_NEW_TRAIN_STEP_H_
