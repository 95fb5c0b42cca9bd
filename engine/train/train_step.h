#ifndef HEARTH_ENGINE_TRAIN_TRAIN_STEP_H_
#define HEARTH_ENGINE_TRAIN_TRAIN_STEP_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/sample/batch_shape.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/feature_rows.h"
#include "engine/store/graph.h"
#include "engine/store/labels.h"
#include "engine/store/safetensors.h"
#include "engine/train/metric.h"
#include "engine/train/model_options.h"

/// The interface between data and models, without torch: batches as trainers
/// see them, and TrainStep, a model being trained.

namespace hearth::train {

/// Input rows of a batch in the memory of a GPU, which may still be gathering
/// them. Thread-safe: several models may take them.
class DeviceRows {
 public:
  virtual ~DeviceRows() = default;

  /// Queues in `stream`, a stream of the CUDA runtime on that GPU, a wait until
  /// the rows are complete and a copy of all of them to `to`, memory of that
  /// GPU. The host does not wait; the object may be destroyed when the function
  /// returns. INTERNAL if the device fails, perhaps in earlier work.
  virtual absl::Status QueueCopy(void* stream, float* to) const = 0;
};

/// Input rows of a batch where they lie, as they are stored: in slots of a
/// strategy's cache, and among the rows that it has read for the batch. They
/// stay and do not change until the batch is released.
struct RowsInPlace {
  const std::byte* slots = nullptr;
  const std::byte* landed = nullptr;
  /// Addresses below this are slots; address num_slots + j is row j of
  /// `landed`.
  uint32_t num_slots = 0;
  /// The format of all rows, one directly behind the other. Rows of float32 are
  /// aligned to it.
  store::RowFormat format = {};
  /// [input nodes] the address of each node's row.
  const uint32_t* addresses = nullptr;
};

/// Memory for the input rows of one shard of a batch, lent by an InputPool. The
/// last reference gives it back to the pool.
class InputMemory {
 public:
  virtual ~InputMemory() = default;

  /// The bytes that were asked for, 64-byte aligned.
  virtual std::byte* data() = 0;
};

/// Memory that a consumer of batches provides, so that strategies assemble rows
/// where the consumer wants them. Thread-safe.
class InputPool {
 public:
  virtual ~InputPool() = default;

  /// Lends memory for `bytes` bytes; never waits for memory that is lent.
  /// Errors end the pass. The pool outlives what it lends.
  virtual absl::StatusOr<std::shared_ptr<InputMemory>> Take(uint64_t bytes) = 0;
};

/// Version of the arithmetic of training: equal options and batches give equal
/// bits within one version. 2: products are summed block by block. 3: a node
/// has one self loop in GCN, however many the graph has.
inline constexpr int kNumericsVersion = 3;

/// Embeddings of a batch's top nodes (sample::TopLayer) that are taken from
/// earlier batches, or given to later ones: outputs of the last but one layer,
/// before dropout; after ReLU, but before LeakyReLU.
struct LayerRows {
  /// Columns of all arrays: TrainStep::TopWidth.
  int64_t width = 0;
  /// Input: embeddings of pulled nodes, [top.pulled.size(), width] float32,
  /// row-major.
  const float* pulled = nullptr;
  /// Output of training: embeddings of pushed nodes, [top.pushed.size(),
  /// width].
  float* pushed = nullptr;
  /// Output of training: gradients of the loss by `pulled`, [top.pulled.size(),
  /// width]; null: not wanted.
  float* pulled_gradients = nullptr;
  /// Input of training: gradients of earlier losses by the embeddings that
  /// earlier batches pulled of the pushed nodes, [top.pushed.size(), width].
  /// Training adds them to the gradients by the embeddings that it computes.
  /// Null: none.
  const float* pushed_gradients = nullptr;
};

/// A batch, or one shard of it, as a trainer sees it: borrowed for the length
/// of a call.
struct BatchView {
  const sample::MiniBatch& sample;
  /// [sample.input_nodes.size(), feature_dim] float32, row-major, 64-byte
  /// aligned. Rows of a node type with fewer columns than the widest begin at
  /// column 0; their other columns are unspecified.
  const float* inputs = nullptr;
  int64_t feature_dim = 0;
  /// Memory of `inputs`, which may be kept beyond the call; null if it is the
  /// strategy's own (strategy::Pass::input_pools).
  std::shared_ptr<InputMemory> input_memory = nullptr;
  /// One row for each of sample.num_seeds seeds, all labeled; in feeds, seeds
  /// of clients may be unlabeled.
  store::LabelsView labels;
  /// Labels of all seeds of the whole batch, of which other machines have some
  /// (ModelShape::window); else without rows.
  store::LabelsView batch_labels = {};
  /// Labels of all nodes of the seeds' type; null: not known.
  const store::Labels* all_labels = nullptr;
  /// Arrays are null where sample.top has no such nodes.
  LayerRows top_rows = {};
  /// Input rows of a batch that only models on one GPU take
  /// (strategy::Pass::rows_on_gpu); `inputs` is null then. Otherwise null.
  const DeviceRows* device_rows = nullptr;
  /// Input rows in place of `inputs`, which is null then
  /// (strategy::Pass::rows_in_place); else absent.
  std::optional<RowsInPlace> rows = std::nullopt;
  /// Numbers of self loops of the graph's nodes; null: there are none, or the
  /// model does not need them (CountsSelfLoops).
  const store::SelfLoops* self_loops = nullptr;

  /// INVALID_ARGUMENT saying what does not fit a model of this shape. Checks
  /// sizes and labels, but not the positions in blocks. A view without seeds
  /// fits.
  absl::Status Validate(const ModelShape& shape) const;
};

/// INVALID_ARGUMENT unless there are as many shards as trainers, each fits a
/// model of this shape, and at least one has seeds, here or on another machine
/// (ModelShape::window).
absl::Status ValidateBatch(absl::Span<const BatchView> shards,
                           const ModelShape& shape);

/// Number of the seeds of all shards.
int64_t NumSeeds(absl::Span<const BatchView> shards);

/// Position of a batch in the training, the key of its dropout.
struct StepPosition {
  /// Epoch, from 0.
  uint64_t epoch = 0;
  /// Batch in the epoch, from 0.
  uint64_t batch = 0;
  /// Shard of the batch, from 0. Set by the step for each trainer.
  uint64_t shard = 0;
};

/// Result of a step or an evaluation of one batch.
struct BatchResult {
  /// Mean loss over the seeds, and over their labels or targets: cross-entropy
  /// of the softmax, or of the logistic function for each label, or squared
  /// error; weighted by TrainOptions::class_weights, also in evaluations.
  float loss = 0;
  int64_t num_seeds = 0;
  /// Sum of the seeds' weights in the mean: num_seeds without class weights;
  /// with partial labels (store/labels.h), the number of known labels.
  double weight = 0;
  /// Counts for the metrics of the labels' kind, and, in an evaluation whose
  /// metric ranks nodes, their scores. Class weights do not apply. Empty for a
  /// step on a device.
  Tally tally = {};
};

/// Waits for the result of a step that has begun. Called once, on the thread
/// that uses the model. INTERNAL if the device has failed meanwhile.
using AwaitResult = std::function<absl::StatusOr<BatchResult>()>;

/// One model being trained. A batch comes as its shards, one for each trainer
/// (ModelShape::trainers), of which some may be empty; what a step computes is
/// that of the whole batch: a (weighted) mean over all of its seeds.
///
///
/// The first call of Train, BeginTrain, Evaluate, Save, Load or Export creates
/// the parameters and the optimizer's state. Before it a step holds no memory,
/// but tells how much it will hold, so that memory can be reserved first.
///
///
/// Single-owner: used by one thread at a time, always the same between Load and
/// the last call.
class TrainStep {
 public:
  virtual ~TrainStep() = default;

  /// Runs forward, backward and optimizer on one batch.
  virtual absl::StatusOr<BatchResult> Train(absl::Span<const BatchView> shards,
                                            const StepPosition& position) = 0;

  /// Begins Train; the result may come later, from a device. The batch is no
  /// longer needed when the call returns. Results must be awaited in order,
  /// before any call but BeginTrain.
  virtual absl::StatusOr<AwaitResult> BeginTrain(
      absl::Span<const BatchView> shards, const StepPosition& position) {
    HEARTH_ASSIGN_OR_RETURN(const BatchResult result, Train(shards, position));
    return [result]() -> absl::StatusOr<BatchResult> { return result; };
  }

  /// Upper bound of the steps that have begun and whose results are not yet
  /// awaited.
  virtual int MostPending() const { return 0; }

  /// Runs forward without dropout; changes nothing.
  virtual absl::StatusOr<BatchResult> Evaluate(
      absl::Span<const BatchView> shards) = 0;

  /// State of the model ("model.*") and the optimizer ("optimizer.*"), by name.
  virtual absl::StatusOr<store::TensorMap> Save() = 0;

  /// Restores what Save gave, bit for bit. DATA_LOSS naming the tensor whose
  /// name or shape does not fit.
  virtual absl::Status Load(const store::TensorMap& state) = 0;

  /// Upper bound of the host memory that the model, its optimizer and a step on
  /// a batch of `shape` hold, without the batch; with several trainers, each
  /// shard has `shape`.
  virtual uint64_t MemoryBytes(const sample::BatchShape& /*shape*/) const {
    return 0;
  }

  /// Upper bound of the same in the memory of the training GPU
  /// (TrainOptions::gpu), all of which stays between steps; 0 without a GPU.
  virtual uint64_t GpuBytes(const sample::BatchShape& /*shape*/) const {
    return 0;
  }

  /// Whether steps on batches like `shape` are faster on rows in place
  /// (BatchView::rows) than on dense ones: then the host memory, in bytes, that
  /// they take beyond MemoryBytes. A model on the processor takes either, and
  /// computes the same bits.
  virtual std::optional<uint64_t> BytesInPlace(
      const sample::BatchShape& /*shape*/) const {
    return std::nullopt;
  }

  /// Part of MemoryBytes that stays between two steps.
  virtual uint64_t KeptBytes() const { return 0; }

  /// Bytes of one copy of the model's parameters, without gradients and
  /// optimizer state.
  virtual uint64_t ParameterBytes() const { return 0; }

  /// Width of the embeddings in LayerRows; 0 for models without any, for
  /// example of one layer.
  virtual int64_t TopWidth() const { return 0; }

  /// Precision of the factors of products; never kAuto.
  virtual Precision precision() const { return Precision::kFloat32; }

  /// The model for other programs: parameters under PyTorch Geometric's
  /// state_dict names, and the text of config.json as metadata "config".
  virtual absl::StatusOr<store::SafeTensors> Export() = 0;
};

/// A step that consumes batches without training (`--model none`), so that a
/// slow trainer cannot hide a slow reader: losses are 0, nothing is predicted,
/// and there is no state.
std::unique_ptr<TrainStep> NewNullStep();

}  // namespace hearth::train

#endif  // HEARTH_ENGINE_TRAIN_TRAIN_STEP_H_
