#ifndef HEARTH_ENGINE_MODEL_TORCH_STEP_H_
#define HEARTH_ENGINE_MODEL_TORCH_STEP_H_

#include <c10/core/Device.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/cuda/device.h"
#include "engine/train/model_options.h"
#include "engine/train/train_step.h"

namespace hearth::model {

/// INVALID_ARGUMENT or FAILED_PRECONDITION, saying why, unless such a model can
/// be made here. REQUIRES: options.Validate; there is a model.
absl::Status CheckModel(const train::TrainOptions& options,
                        const train::ModelShape& shape);

/// A step of one trainer on the processor. REQUIRES: CheckModel.
absl::StatusOr<std::unique_ptr<train::TrainStep>> NewTorchStep(
    const train::TrainOptions& options, const train::ModelShape& shape);

/// The same on a device, which LibTorch knows as `device` and the plug-in as
/// `plugin`. Losses are the processor's but for rounding, and repeat bit for
/// bit. Products are of float32. UNIMPLEMENTED for what is not there on
/// devices: several trainers, bfloat16, batches with embeddings of earlier
/// ones. REQUIRES: there is a model.
absl::StatusOr<std::unique_ptr<train::TrainStep>> NewDeviceStep(
    const train::TrainOptions& options, const train::ModelShape& shape,
    const at::Device& device, const cuda::Device& plugin);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_TORCH_STEP_H_
