#ifndef HEARTH_ENGINE_MODEL_PARALLEL_STEP_H_
#define HEARTH_ENGINE_MODEL_PARALLEL_STEP_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/train/model_options.h"
#include "engine/train/train_step.h"

namespace hearth::model {

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

#endif  // HEARTH_ENGINE_MODEL_PARALLEL_STEP_H_
