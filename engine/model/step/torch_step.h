#ifndef HEARTH_ENGINE_MODEL_STEP_TORCH_STEP_H_
#define HEARTH_ENGINE_MODEL_STEP_TORCH_STEP_H_

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

/// A model in shape.trainers replicas, data parallel (Li et al., "PyTorch
/// Distributed", VLDB 2020; GNNDrive, section 4.3): each takes its shard of a
/// batch on a thread of its own, with options.train_threads threads inside its
/// operations; the gradients are added up over the replicas, weighted by what
/// the shards' seeds weigh in the loss, in the order of the shards, and all
/// take the same step. What it computes is what one trainer computes from the
/// whole batch, up to the order of additions; with dropout, each shard has its
/// own pattern. Repeats are bit-identical for the same number of trainers.
///
/// An error in any shard comes before anything has changed. If an optimizer
/// itself fails, replicas may differ: the step then gives that error ever
/// after. REQUIRES: options and shape are valid and there is a model.
absl::StatusOr<std::unique_ptr<train::TrainStep>> NewParallelStep(
    const train::TrainOptions& options, const train::ModelShape& shape);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_STEP_TORCH_STEP_H_
