#ifndef HEARTH_ENGINE_MODEL_STEP_NEW_TRAIN_STEP_H_
#define HEARTH_ENGINE_MODEL_STEP_NEW_TRAIN_STEP_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/cuda/device.h"
#include "engine/train/model_options.h"
#include "engine/train/train_step.h"

namespace hearth::model {

/// Fixes what must be fixed before LibTorch does its first work: MKL's
/// reproducibility mode (MKL_CBWR=AUTO, MKL_DYNAMIC=FALSE), OpenMP threads that
/// sleep while they wait, deterministic algorithms; loads LibTorch's part for
/// GPUs, if there is a driver (gpu_torch.h). Call once at the start of
/// main, before any thread; may start the program anew with the environment it
/// needs.
void InitializeTorch(char** argv);

/// A model on the CPU by LibTorch (or, for NoModelOptions, none). Its results
/// depend on the options (not on train_threads), the batches and the processor
/// type alone: not on other models in the process. Exceptions of LibTorch
/// become statuses, out of memory RESOURCE_EXHAUSTED.
absl::StatusOr<std::unique_ptr<train::TrainStep>> NewTrainStep(
    const train::TrainOptions& options, const train::ModelShape& shape);

/// The same on a GPU, which the plug-in of GPUs knows as `device`: see
/// NewDeviceStep. FAILED_PRECONDITION as GpuTraining.
absl::StatusOr<std::unique_ptr<train::TrainStep>> NewGpuStep(
    const train::TrainOptions& options, const train::ModelShape& shape,
    const cuda::Device& device);

/// Whether models can be made on GPUs: InitializeTorch found a driver and
/// LibTorch's part for it. FAILED_PRECONDITION, for users, if not.
absl::Status GpuTraining();

/// Version of LibTorch.
const char* TorchVersion();

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_STEP_NEW_TRAIN_STEP_H_
