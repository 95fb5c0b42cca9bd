#ifndef HEARTH_ENGINE_MODEL_STEP_TORCH_STEP_H_
#define HEARTH_ENGINE_MODEL_STEP_TORCH_STEP_H_

#include <c10/core/Device.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/cuda/device.h"
#include "engine/train/model_options.h"
#include "engine/train/rank_group.h"
#include "engine/train/train_step.h"

namespace hearth::model {

/// INVALID_ARGUMENT or FAILED_PRECONDITION, with the reason, unless such a
/// model can be made here. REQUIRES: options.Validate; a model.
absl::Status CheckModel(const train::TrainOptions& options,
                        const train::ModelShape& shape);

/// A step of one trainer on the processor. REQUIRES: CheckModel.
absl::StatusOr<std::unique_ptr<train::TrainStep>> NewTorchStep(
    const train::TrainOptions& options, const train::ModelShape& shape);

/// A step of one trainer on the device that LibTorch knows as `device` and the
/// plug-in as `plugin`. Losses equal the processor's except for rounding, and
/// repeat bit for bit. Products are of float32. UNIMPLEMENTED for several
/// trainers, bfloat16, and batches with a top layer. REQUIRES: a model.
absl::StatusOr<std::unique_ptr<train::TrainStep>> NewDeviceStep(
    const train::TrainOptions& options, const train::ModelShape& shape,
    const at::Device& device, const cuda::Device& plugin);

/// A model in shape.trainers replicas, data parallel (Li et al., "PyTorch
/// Distributed", VLDB 2020; GNNDrive, section 4.3): each replica takes its
/// shard of a batch on a thread of its own, with options.train_threads threads
/// inside its operations; gradients are added up over the replicas in the order
/// of the shards, weighted by the shards' loss weights, and all replicas take
/// the same step. The result is that of one trainer with the whole batch,
/// except for the order of additions; with dropout, each shard has its own
/// pattern. Repeats are bit-identical for equal numbers of trainers.
///
/// An error in any shard is returned before anything has changed. If an
/// optimizer fails, replicas may differ: the step then returns that error in
/// every later call.
///
/// With `ranks`, which outlives the step, other machines have the other shards
/// (ModelShape::window) and make the same calls: gradients of each machine are
/// added up over its trainers, then over the machines, in the order of their
/// ranks, and results are those of the whole batch everywhere. An error on any
/// machine is returned on all, before anything has changed. N machines with a
/// trainer each take the steps of N trainers on one, in every bit.
/// REQUIRES: valid `options` and `shape`; a model.
absl::StatusOr<std::unique_ptr<train::TrainStep>> NewParallelStep(
    const train::TrainOptions& options, const train::ModelShape& shape,
    train::RankGroup* ranks = nullptr);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_STEP_TORCH_STEP_H_
