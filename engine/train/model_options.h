#ifndef HEARTH_ENGINE_TRAIN_MODEL_OPTIONS_H_
#define HEARTH_ENGINE_TRAIN_MODEL_OPTIONS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/sample/shard_window.h"
#include "engine/store/labels.h"
#include "engine/train/metric.h"

/// The model to train, how it is trained, and what the data impose on it: plain
/// options, so that jobs and servers need no torch.

namespace hearth::train {

/// Weights of nodes in the training loss, by their labels. At most one of the
/// two fields is set; with neither, all nodes weigh the same.
///
/// * kClasses: the loss is the mean over nodes, weighted by the weight of each
///   node's class (torch.nn.CrossEntropyLoss with `weight`).
/// * kMultiLabel: a label that a node has weighs this much relative to a label
///   that it lacks (torch.nn.BCEWithLogitsLoss with `pos_weight`).
struct ClassWeights {
  /// Class c weighs N / (C * N_c), where N_c of the N training nodes have class
  /// c, and C classes have any node (scikit-learn's "balanced"). kClasses only.
  bool balanced = false;
  /// A positive weight for each class or label.
  std::vector<double> values = {};

  bool empty() const { return !balanced && values.empty(); }

  /// INVALID_ARGUMENT, naming the option, unless the weights fit labels of this
  /// kind and width.
  absl::Status Validate(store::LabelKind kind, int64_t width) const;

  /// Weight of each class or label; empty if all weigh the same. `class_counts`
  /// are the training nodes of each class; a class without any has a balanced
  /// weight of 1. REQUIRES: Validate.
  std::vector<float> Resolve(absl::Span<const int64_t> class_counts) const;
};

/// GraphSAGE with mean aggregation (Hamilton et al., 2017; PyG's SAGEConv).
struct SageOptions {
  static constexpr absl::string_view kName = "sage";
  int64_t hidden = 256;
};

/// Graph convolutional network (Kipf and Welling, 2017; PyG's GCNConv).
struct GcnOptions {
  static constexpr absl::string_view kName = "gcn";
  int64_t hidden = 256;
};

/// Graph attention network (Velickovic et al., 2018; PyG's GATConv): hidden
/// layers concatenate their heads, the last one averages them.
struct GatOptions {
  static constexpr absl::string_view kName = "gat";
  /// Columns of all heads together: a multiple of `heads`.
  int64_t hidden = 256;
  int64_t heads = 4;
};

/// GATv2 (Brody et al., 2022; PyG's GATv2Conv): attention whose ranking of
/// neighbors depends on the attending node; heads as in GatOptions.
struct Gatv2Options {
  static constexpr absl::string_view kName = "gatv2";
  /// Columns of all heads together: a multiple of `heads`.
  int64_t hidden = 256;
  int64_t heads = 4;
};

/// Graph isomorphism network (Xu et al., 2019; PyG's GINConv with an MLP of two
/// layers and a fixed epsilon of 0): sums the sampled neighbors.
struct GinOptions {
  static constexpr absl::string_view kName = "gin";
  /// Columns between two layers, and inside the MLPs of hidden layers.
  int64_t hidden = 256;
};

/// Relational graph convolutional network (Schlichtkrull et al., 2018; PyG's
/// RGCNConv, mean aggregator): a weight matrix for each edge type. Where node
/// types differ in width, a linear layer first brings each to `hidden` columns.
struct RgcnOptions {
  static constexpr absl::string_view kName = "rgcn";
  int64_t hidden = 256;
  /// Number of basis matrices, of which the matrix of each edge type is a
  /// linear combination; 0 = each edge type has a matrix of its own.
  int64_t bases = 0;
};

/// GraphSAGE for each edge type (PyG's HeteroConv of SAGEConv without root
/// weights), summed over the edge types that lead to a node, followed by a
/// linear layer. The RGNN model of MLPerf and IGBH.
struct RsageOptions {
  static constexpr absl::string_view kName = "rsage";
  int64_t hidden = 256;
};

/// RsageOptions' model with graph attention (PyG's GATConv without self loops):
/// the softmax is over the edges of one type that lead to a node.
struct RgatOptions {
  static constexpr absl::string_view kName = "rgat";
  /// Columns of all heads together: a multiple of `heads`.
  int64_t hidden = 256;
  int64_t heads = 4;
};

/// No model: consumes batches without training.
struct NoModelOptions {
  static constexpr absl::string_view kName = "none";
};

/// Options of any model. Each alternative has kName, the model's name for users
/// and in the contract (TrainSpec.model). Members `hidden` and `heads` are
/// checked and filled in by these names, where a model has them.
using ModelOptions =
    std::variant<SageOptions, GcnOptions, GatOptions, Gatv2Options, GinOptions,
                 RgcnOptions, RsageOptions, RgatOptions, NoModelOptions>;

/// kName of the model.
absl::string_view Name(const ModelOptions& options);

/// Whether the model weighs messages by edge weights, where a sampler gives
/// them: sage, gcn and none.
bool TakesEdgeWeights(const ModelOptions& options);

/// Whether the model takes graphs of several node types or edge types: rgcn,
/// rsage, rgat and none. They also take other graphs.
bool TakesTypes(const ModelOptions& options);

/// Whether the model needs the number of self loops of each node
/// (BatchView::self_loops): gcn, whose edge weights follow from degrees without
/// self loops.
bool CountsSelfLoops(const ModelOptions& options);

/// Width of the hidden layers; 0 without a model.
int64_t HiddenWidth(const ModelOptions& options);

struct AdamOptions {
  double learning_rate = 0.003;
  double weight_decay = 0;
};

struct AdamWOptions {
  double learning_rate = 0.003;
  double weight_decay = 0.01;
};

struct SgdOptions {
  double learning_rate = 0.003;
  double momentum = 0;
  double weight_decay = 0;
};

using OptimizerOptions = std::variant<AdamOptions, AdamWOptions, SgdOptions>;

/// Keeps the learning rate.
struct ConstantSchedule {};

/// Lowers the learning rate by half a cosine over all steps.
struct CosineSchedule {
  /// Learning rate at the end.
  double min_learning_rate = 0;
};

/// Multiplies the learning rate by `gamma` after each `epochs` epochs.
struct StepSchedule {
  int64_t epochs = 1;
  double gamma = 1;
};

/// Course of the learning rate after the warm-up; see LearningRate.
using Schedule = std::variant<ConstantSchedule, CosineSchedule, StepSchedule>;

/// Precision of the factors of matrix products. Products are summed in float32,
/// and parameters and the optimizer's state are float32, in any precision.
enum class Precision {
  kFloat32,
  /// 8 bits of mantissa instead of 24.
  kBfloat16,
  /// kBfloat16 where the processor multiplies it in less time, else kFloat32.
  kAuto,
};

/// Name for users and in the contract (TrainSpec.precision).
absl::string_view Name(Precision precision);

/// Number of the GPU of that name: 0 for "cuda", N for "cuda:N"; nullopt for
/// "cpu" and "". INVALID_ARGUMENT for any other name.
absl::StatusOr<std::optional<int>> GpuNamed(absl::string_view name);

/// Inverse of GpuNamed: "cpu" for none, "cuda:N" for GPU N.
std::string DeviceName(std::optional<int> gpu);

/// Precision of that name; nullopt if there is none.
std::optional<Precision> PrecisionNamed(absl::string_view name);

/// A model and how it is optimized.
struct TrainOptions {
  ModelOptions model;
  OptimizerOptions optimizer;
  Schedule schedule;
  /// Number of first epochs in which the learning rate rises linearly.
  int64_t warmup_epochs = 0;
  /// Upper bound of the L2 norm of all gradients together, to which larger
  /// gradients are scaled down; 0 = none.
  double clip_norm = 0;
  /// Probability that an activation between two layers is dropped, in [0, 1).
  double dropout = 0;
  /// Seed of initial weights and dropout.
  uint64_t model_seed = 0;
  Precision precision = Precision::kFloat32;
  /// Number of the training GPU; absent: the processor trains.
  std::optional<int> gpu = {};
  /// Threads inside one operation; does not change results.
  int train_threads = 2;
  ClassWeights class_weights = {};
  /// Metric of evaluations; absent: the default for the labels.
  std::optional<Metric> metric = {};

  /// INVALID_ARGUMENT naming the wrong option. ValidateForLabels checks options
  /// that depend on labels.
  absl::Status Validate() const;

  /// INVALID_ARGUMENT naming the option that does not fit labels of this kind
  /// and width.
  absl::Status ValidateForLabels(store::LabelKind kind, int64_t width) const;

  /// Metric for labels of `kind`.
  Metric MetricFor(store::LabelKind kind) const {
    return metric.value_or(train::MetricFor(kind));
  }
};

/// Upper bound of the trainers on one machine's processors.
inline constexpr int64_t kMaxTrainers = 16;

/// A node type of a heterograph, as models see it.
struct NodeTypeShape {
  std::string name;
  /// Columns of its rows: the first columns of the input matrix.
  int64_t feature_dim = 0;
};

/// An edge type of a heterograph: messages go from nodes of type `source` to
/// nodes of type `destination`, both indices of ModelShape::node_types.
struct EdgeTypeShape {
  std::string name;
  size_t source = 0;
  size_t destination = 0;
};

/// Sizes that the data impose on a model.
struct ModelShape {
  /// Columns of the input matrix: the columns of the widest node type.
  int64_t feature_dim = 0;
  /// Decides the loss and the metric.
  store::LabelKind label_kind = store::LabelKind::kClasses;
  /// Columns of the output: classes, labels or targets.
  int64_t label_width = 0;
  int64_t num_layers = 0;
  /// Number of replicas, each of which takes one shard of every batch.
  int64_t trainers = 1;
  /// Which shards of each batch the replicas take, where those of other
  /// machines take the others.
  sample::ShardWindow window = {};
  /// Steps per epoch, and epochs of the training, which schedules refer to.
  int64_t epoch_steps = 1;
  int64_t epochs = 1;
  /// Whether the state of the best epoch is kept next to the current state, as
  /// early stopping needs.
  bool keeps_best = false;
  /// Types of a heterograph, in the order of the manifest; both empty for a
  /// graph of one node type and one edge type.
  std::vector<NodeTypeShape> node_types = {};
  std::vector<EdgeTypeShape> edge_types = {};
  /// Node type whose labels are predicted.
  size_t target_type = 0;
  /// Labeled training nodes of each class; empty for other kinds of labels.
  std::vector<int64_t> class_counts = {};

  /// Number of node types, 1 for a graph without types; likewise for edge
  /// types.
  size_t num_node_types() const {
    return std::max<size_t>(1, node_types.size());
  }
  size_t num_edge_types() const {
    return std::max<size_t>(1, edge_types.size());
  }

  /// INVALID_ARGUMENT naming the wrong field.
  absl::Status Validate() const;
};

/// Width of the embeddings that the last layer takes; 0 for models of one
/// layer, and without a model.
int64_t TopWidth(const ModelOptions& options, const ModelShape& shape);

/// Learning rate of each step of a training, a function of the step's number
/// alone, so that a resumed training continues with the same rates. With W
/// steps of warm-up, base rate r and n = step - W:
///
///   warm-up    r * (step + 1) / W                           for step < W
///   constant   r
///   cosine     m + (r - m) * (1 + cos(pi * n / (all - W))) / 2
///   step       r * gamma ^ floor(n / (steps of `epochs` epochs))
///
/// Cosine and step equal torch's CosineAnnealingLR and StepLR. Thread-safe.
class LearningRate {
 public:
  /// REQUIRES: valid `options` and `shape`.
  LearningRate(const TrainOptions& options, const ModelShape& shape);

  /// Learning rate of step number `step`, from 0.
  double At(int64_t step) const;

 private:
  const double base_;
  const Schedule schedule_;
  const int64_t epoch_steps_;
  const int64_t warmup_steps_;
  const int64_t all_steps_;
};

}  // namespace hearth::train

#endif  // HEARTH_ENGINE_TRAIN_MODEL_OPTIONS_H_
