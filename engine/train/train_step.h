#ifndef HEARTH_ENGINE_TRAIN_TRAIN_STEP_H_
#define HEARTH_ENGINE_TRAIN_TRAIN_STEP_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/sample/batch_shape.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/labels.h"
#include "engine/store/safetensors.h"
#include "engine/train/metric.h"
#include "engine/train/model_options.h"

/// The interface between data and models. Knows no torch.

namespace hearth::train {

/// A batch as the trainer sees it: borrowed for the length of a call.
struct BatchView {
  const sample::MiniBatch& sample;
  /// [sample.input_nodes.size(), feature_dim] float32, row-major, 64-byte
  /// aligned.
  const float* inputs = nullptr;
  int64_t feature_dim = 0;
  /// One row for each of sample.num_seeds seeds, all of them labeled.
  store::LabelsView labels;

  /// INVALID_ARGUMENT saying what does not fit a model of this shape. Looks at
  /// sizes and labels; the blocks' positions are taken to be right.
  absl::Status Validate(const ModelShape& shape) const;
};

/// Where training stands: keys the dropout.
struct StepPosition {
  /// From 0.
  uint64_t epoch = 0;
  /// Batch in the epoch, from 0.
  uint64_t batch = 0;
};

/// What a step or an evaluation of one batch gave.
struct BatchResult {
  /// Mean loss over the seeds, and over their labels or targets: cross-entropy
  /// of the softmax, or of the logistic function for each label, or squared
  /// error.
  float loss = 0;
  int64_t num_seeds = 0;
  /// What the metric for the labels' kind is computed from.
  Tally tally = {};
};

/// One model being trained. Single-owner: used by one thread at a time, always
/// the same between Load and the last call.
class TrainStep {
 public:
  virtual ~TrainStep() = default;

  /// Forward, backward and optimizer step on one batch.
  virtual absl::StatusOr<BatchResult> Train(const BatchView& batch,
                                            const StepPosition& position) = 0;

  /// Forward without dropout; changes nothing.
  virtual absl::StatusOr<BatchResult> Evaluate(const BatchView& batch) = 0;

  /// Model ("model.*") and optimizer ("optimizer.*") state, by name.
  virtual absl::StatusOr<store::TensorMap> Save() = 0;

  /// Restores what Save gave, bit for bit. DATA_LOSS naming the tensor if
  /// names or shapes do not fit.
  virtual absl::Status Load(const store::TensorMap& state) = 0;

  /// What the model, its optimizer and a step on a batch of `shape` hold in
  /// memory at most, the batch itself apart.
  virtual uint64_t MemoryBytes(const sample::BatchShape& /*shape*/) const {
    return 0;
  }

  /// The model for others: parameters under PyTorch Geometric's state_dict
  /// names, and the text of config.json under metadata "config".
  virtual absl::StatusOr<store::SafeTensors> Export() = 0;
};

}  // namespace hearth::train

#endif  // HEARTH_ENGINE_TRAIN_TRAIN_STEP_H_
