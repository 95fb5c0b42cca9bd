#ifndef HEARTH_ENGINE_TRAIN_TRAIN_STEP_H_
#define HEARTH_ENGINE_TRAIN_TRAIN_STEP_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/sample/batch_shape.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/graph.h"
#include "engine/store/labels.h"
#include "engine/store/safetensors.h"
#include "engine/train/metric.h"
#include "engine/train/model_options.h"

namespace hearth::train {

/// The input rows of a batch, in the memory of a GPU that may still be busy
/// bringing them together. Thread-safe: several models may take them.
class DeviceRows {
 public:
  virtual ~DeviceRows() = default;

  /// Queues in `stream`, a stream of the CUDA runtime on that GPU: a wait until
  /// the rows are there, and a copy of all of them to `to`, memory of that GPU.
  /// The host waits for neither, and the rows may be given up when this
  /// returns. INTERNAL if the device fails, perhaps in earlier work.
  virtual absl::Status QueueCopy(void* stream, float* to) const = 0;
};

/// The interface between data and models. Knows no torch.

/// Version of the arithmetic of training. Equal options and batches give equal
/// bits within one version. 2: products are summed block by block. 3: a node
/// has one self loop in GCN, however many the graph has.
inline constexpr int kNumericsVersion = 3;

/// The embeddings of a batch's top nodes (sample::TopLayer) that come from
/// earlier batches, and that go to later ones: those of the last but one layer,
/// before dropout; after ReLU, but before LeakyReLU, in models that have it.
struct LayerRows {
  /// Columns of both: TrainStep::TopWidth.
  int64_t width = 0;
  /// [top.pulled.size(), width] float32, row-major.
  const float* pulled = nullptr;
  /// [top.pushed.size(), width], which training fills in.
  float* pushed = nullptr;
  /// The gradients of the loss by `pulled`, [top.pulled.size(), width], which
  /// training fills in; null: nobody wants them.
  float* pulled_gradients = nullptr;
  /// The gradients of earlier losses by what earlier batches had of the pushed
  /// nodes, [top.pushed.size(), width]: training adds them to its own, by the
  /// embeddings that it computes. Null: there are none.
  const float* pushed_gradients = nullptr;
};

/// A batch, or one shard of it, as the trainer sees it: borrowed for the length
/// of a call.
struct BatchView {
  const sample::MiniBatch& sample;
  /// [sample.input_nodes.size(), feature_dim] float32, row-major, 64-byte
  /// aligned. Rows of a node type with fewer columns than the widest begin at
  /// column 0; what follows them is unspecified.
  const float* inputs = nullptr;
  int64_t feature_dim = 0;
  /// One row for each of sample.num_seeds seeds, all of them labeled.
  store::LabelsView labels;
  /// Null where sample.top has none of the kind.
  LayerRows top_rows = {};
  /// The input rows of a batch that only models on the GPU with these rows take
  /// (strategy::Pass::rows_on_gpu): `inputs` is null then. Else null.
  const DeviceRows* device_rows = nullptr;
  /// Self loops of the graph's nodes; null: none has any, or the model does not
  /// ask (CountsSelfLoops).
  const store::SelfLoops* self_loops = nullptr;

  /// INVALID_ARGUMENT saying what does not fit a model of this shape. Looks at
  /// sizes and labels; the blocks' positions are taken to be right. A view
  /// without seeds fits.
  absl::Status Validate(const ModelShape& shape) const;
};

/// INVALID_ARGUMENT unless there are as many shards as trainers, each fits a
/// model of this shape, and one at least has seeds.
absl::Status ValidateBatch(absl::Span<const BatchView> shards,
                           const ModelShape& shape);

/// Seeds of all shards.
int64_t NumSeeds(absl::Span<const BatchView> shards);

/// Where training stands: keys the dropout.
struct StepPosition {
  /// From 0.
  uint64_t epoch = 0;
  /// Batch in the epoch, from 0.
  uint64_t batch = 0;
  /// Shard of the batch, from 0. Set by the step for each of its trainers.
  uint64_t shard = 0;
};

/// The result of a step or an evaluation of one batch.
struct BatchResult {
  /// Mean loss over the seeds, and over their labels or targets: cross-entropy
  /// of the softmax, or of the logistic function for each label, or squared
  /// error. By TrainOptions::class_weights, in an evaluation, too.
  float loss = 0;
  int64_t num_seeds = 0;
  /// The seeds' weights in the mean, added up: num_seeds, but where classes
  /// have weights; of partial labels (store/labels.h), those that are known.
  double weight = 0;
  /// Counts that metrics are computed from: those that are for the labels'
  /// kind, and, of an evaluation whose metric ranks nodes, their scores. No
  /// class has a weight here. Empty for a step on a device.
  Tally tally = {};
};

/// Waits for the result of a step that has begun. Called once, on the thread
/// that uses the model. INTERNAL if the device has failed in the meantime.
using AwaitResult = std::function<absl::StatusOr<BatchResult>()>;

/// One model being trained. A batch comes as its shards, one for each trainer
/// (ModelShape::trainers), of which some may be empty; what a step computes,
/// and its result, are those of the whole batch: a (weighted) mean over all of
/// its seeds. The first call of Train, BeginTrain, Evaluate, Save, Load or
/// Export makes the parameters and the optimizer's state; until then a step
/// holds nothing, and tells what it will hold: so that memory can be reserved
/// before any is taken.
/// Single-owner: used by one thread at a time, always the same between Load and
/// the last call.
class TrainStep {
 public:
  virtual ~TrainStep() = default;

  /// Forward, backward and optimizer step on one batch.
  virtual absl::StatusOr<BatchResult> Train(absl::Span<const BatchView> shards,
                                            const StepPosition& position) = 0;

  /// The same, but the result may be yet to come, from a device; the batch is
  /// no longer needed. Results are awaited in their order, and before
  /// everything else but other steps.
  virtual absl::StatusOr<AwaitResult> BeginTrain(
      absl::Span<const BatchView> shards, const StepPosition& position) {
    HEARTH_ASSIGN_OR_RETURN(const BatchResult result, Train(shards, position));
    return [result]() -> absl::StatusOr<BatchResult> { return result; };
  }

  /// Steps that may have begun whose results nobody has awaited.
  virtual int MostPending() const { return 0; }

  /// Forward without dropout; changes nothing.
  virtual absl::StatusOr<BatchResult> Evaluate(
      absl::Span<const BatchView> shards) = 0;

  /// Model ("model.*") and optimizer ("optimizer.*") state, by name.
  virtual absl::StatusOr<store::TensorMap> Save() = 0;

  /// Restores what Save gave, bit for bit. DATA_LOSS naming the tensor if
  /// names or shapes do not fit.
  virtual absl::Status Load(const store::TensorMap& state) = 0;

  /// The bytes that the model, its optimizer and a step on a batch of `shape`
  /// hold in the host's memory at most, the batch itself apart; with several
  /// trainers, on shards that are each of `shape`.
  virtual uint64_t MemoryBytes(const sample::BatchShape& /*shape*/) const {
    return 0;
  }

  /// The same in the memory of the GPU that trains (TrainOptions::gpu), all of
  /// which stays between two steps; 0 without one.
  virtual uint64_t GpuBytes(const sample::BatchShape& /*shape*/) const {
    return 0;
  }

  /// The part of MemoryBytes that stays between two steps.
  virtual uint64_t KeptBytes() const { return 0; }

  /// Bytes of the model's parameters: one copy of them, without gradients and
  /// optimizer state.
  virtual uint64_t ParameterBytes() const { return 0; }

  /// Width of the embeddings in LayerRows; 0 for models without any, of a
  /// single layer, say.
  virtual int64_t TopWidth() const { return 0; }

  /// Precision that products round their factors to: never kAuto.
  virtual Precision precision() const { return Precision::kFloat32; }

  /// The model for others: parameters under PyTorch Geometric's state_dict
  /// names, and the text of config.json under metadata "config".
  virtual absl::StatusOr<store::SafeTensors> Export() = 0;
};

/// A step that consumes batches without training (`--model none`), so that a
/// slow trainer cannot hide a slow reader: losses are 0, nothing is predicted,
/// and there is no state.
std::unique_ptr<TrainStep> NewNullStep();

}  // namespace hearth::train

#endif  // HEARTH_ENGINE_TRAIN_TRAIN_STEP_H_
