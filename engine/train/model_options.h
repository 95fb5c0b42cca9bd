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
#include "engine/store/labels.h"
#include "engine/train/metric.h"

namespace hearth::train {

/// How much nodes count in the training loss, by their labels: at most one of
/// the two is set, and neither is all nodes alike.
///
/// * kClasses: the loss is the weighted mean over nodes, each of which has the
///   weight of its class (torch.nn.CrossEntropyLoss with `weight`).
/// * kMultiLabel: the weight of having a label against lacking it
///   (torch.nn.BCEWithLogitsLoss with `pos_weight`).
struct ClassWeights {
  /// Each class counts by N / (C * N_c), where N_c of the N training nodes have
  /// it, and C classes have any node (scikit-learn's "balanced"). Of kClasses
  /// only.
  bool balanced = false;
  /// One positive number for each class or label.
  std::vector<double> values = {};

  bool empty() const { return !balanced && values.empty(); }

  /// INVALID_ARGUMENT, naming the option, unless they can weigh labels of this
  /// kind and width.
  absl::Status Validate(store::LabelKind kind, int64_t width) const;

  /// The weight of each class or label; empty where all nodes are alike. A
  /// class without training nodes has a balanced weight of 1. `class_counts`
  /// are the training nodes of each class. REQUIRES: Validate.
  std::vector<float> Resolve(absl::Span<const int64_t> class_counts) const;
};

/// The model to train, and how: plain options, so that jobs and servers can
/// speak of models without torch.

/// GraphSAGE, mean aggregator (Hamilton et al., 2017; PyG's SAGEConv).
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
  /// Over all heads: a multiple of `heads`.
  int64_t hidden = 256;
  int64_t heads = 4;
};

/// GATv2 (Brody et al., 2022; PyG's GATv2Conv): attention whose ranking of
/// neighbors depends on the node that attends; heads as in GatOptions.
struct Gatv2Options {
  static constexpr absl::string_view kName = "gatv2";
  /// Over all heads: a multiple of `heads`.
  int64_t hidden = 256;
  int64_t heads = 4;
};

/// Graph isomorphism network (Xu et al., 2019; PyG's GINConv with an MLP of two
/// layers and a fixed epsilon of 0): sums neighbors, those that were sampled.
struct GinOptions {
  static constexpr absl::string_view kName = "gin";
  /// Also inside the MLPs of hidden layers.
  int64_t hidden = 256;
};

/// Relational graph convolutional network (Schlichtkrull et al., 2018; PyG's
/// RGCNConv, mean aggregator): a weight matrix for each edge type. Where node
/// types differ in width, each is first brought to `hidden` columns.
struct RgcnOptions {
  static constexpr absl::string_view kName = "rgcn";
  int64_t hidden = 256;
  /// Matrices that those of all edge types are linear combinations of; 0 = each
  /// edge type has one of its own.
  int64_t bases = 0;
};

/// GraphSAGE for each edge type (PyG's HeteroConv of SAGEConv without root
/// weights), summed over the edge types that lead to a node; then a linear
/// layer. The model of MLPerf's and IGBH's RGNN.
struct RsageOptions {
  static constexpr absl::string_view kName = "rsage";
  int64_t hidden = 256;
};

/// The same with graph attention (PyG's GATConv without self loops): the
/// softmax is over the edges of one type that lead to a node.
struct RgatOptions {
  static constexpr absl::string_view kName = "rgat";
  /// Over all heads: a multiple of `heads`.
  int64_t hidden = 256;
  int64_t heads = 4;
};

/// Consumes batches without training.
struct NoModelOptions {
  static constexpr absl::string_view kName = "none";
};

/// Each has kName, its name for users and in the contract (TrainSpec.model).
/// `hidden` and `heads` are checked and filled in by these names, where a model
/// has them.
using ModelOptions =
    std::variant<SageOptions, GcnOptions, GatOptions, Gatv2Options, GinOptions,
                 RgcnOptions, RsageOptions, RgatOptions, NoModelOptions>;

/// The model's name: its kName.
absl::string_view Name(const ModelOptions& options);

/// Whether the model weighs messages by the weights of edges, where a sampler
/// gives some: sage, gcn and none.
bool TakesEdgeWeights(const ModelOptions& options);

/// Whether the model takes graphs of several node types and edge types: rgcn,
/// rsage, rgat and none. They take other graphs, too.
bool TakesTypes(const ModelOptions& options);

/// Whether the model has to know how many self loops each node has
/// (BatchView::self_loops): gcn, whose weights of edges follow from the degrees
/// without them.
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

/// The learning rate stays.
struct ConstantSchedule {};

/// It falls by half a cosine over all steps.
struct CosineSchedule {
  /// To which it falls.
  double min_learning_rate = 0;
};

/// It is multiplied by `gamma` after each `epochs` epochs.
struct StepSchedule {
  int64_t epochs = 1;
  double gamma = 1;
};

/// How the learning rate goes on after the warm-up; see LearningRate.
using Schedule = std::variant<ConstantSchedule, CosineSchedule, StepSchedule>;

/// Precision of the factors of matrix products; products are added up in
/// float32, and parameters and the optimizer's state are float32.
enum class Precision {
  kFloat32,
  /// 8 bits of mantissa instead of 24.
  kBfloat16,
  /// kBfloat16 where the processor multiplies it natively, else kFloat32.
  kAuto,
};

/// Its name for users and in the contract (TrainSpec.precision).
absl::string_view Name(Precision precision);

/// The number of the GPU that a device's name means: 0 for "cuda", N for
/// "cuda:N"; absent for "cpu" and "". INVALID_ARGUMENT for any other name.
absl::StatusOr<std::optional<int>> GpuNamed(absl::string_view name);

/// The other way: "cpu", "cuda:0".
std::string DeviceName(std::optional<int> gpu);

/// The precision of that name; nullopt if there is none.
std::optional<Precision> PrecisionNamed(absl::string_view name);

/// One model and how it is optimized.
struct TrainOptions {
  ModelOptions model;
  OptimizerOptions optimizer;
  Schedule schedule;
  /// Epochs at first in which the learning rate rises in a straight line.
  int64_t warmup_epochs = 0;
  /// L2 norm of all gradients together, above which they are scaled down to it;
  /// 0 = they never are.
  double clip_norm = 0;
  /// Probability that an activation between two layers is dropped, in [0, 1).
  double dropout = 0;
  /// Seeds the initial weights and the dropout.
  uint64_t model_seed = 0;
  Precision precision = Precision::kFloat32;
  /// Number of the GPU that trains; absent: the processor does.
  std::optional<int> gpu = {};
  /// Threads inside one operation; changes no result.
  int train_threads = 2;
  ClassWeights class_weights = {};
  /// Metric that evaluations judge by; absent: MetricFor the labels.
  std::optional<Metric> metric = {};

  /// INVALID_ARGUMENT naming the option at fault. Those that depend on labels
  /// are for ValidateForLabels.
  absl::Status Validate() const;

  /// INVALID_ARGUMENT naming the option that does not fit labels of this kind
  /// and width.
  absl::Status ValidateForLabels(store::LabelKind kind, int64_t width) const;

  /// The metric for labels of `kind`.
  Metric MetricFor(store::LabelKind kind) const {
    return metric.value_or(train::MetricFor(kind));
  }
};

/// As many as there may be on one machine's processors.
inline constexpr int64_t kMaxTrainers = 16;

/// A node type of a heterograph, as a model sees it.
struct NodeTypeShape {
  std::string name;
  /// Columns of its rows: the first ones of ModelShape::feature_dim.
  int64_t feature_dim = 0;
};

/// An edge type of a heterograph: messages go from nodes of type `source` to
/// nodes of type `destination`, indices of ModelShape::node_types.
struct EdgeTypeShape {
  std::string name;
  size_t source = 0;
  size_t destination = 0;
};

/// The figures that the data imposes on a model.
struct ModelShape {
  /// Columns of the input matrix: those of the widest node type.
  int64_t feature_dim = 0;
  /// Decides the loss and the metric.
  store::LabelKind label_kind = store::LabelKind::kClasses;
  /// Columns of the output: classes, labels or targets.
  int64_t label_width = 0;
  int64_t num_layers = 0;
  /// Replicas, each of which takes one shard of every batch.
  int64_t trainers = 1;
  /// Steps of an epoch, and epochs of the training: what schedules count by.
  int64_t epoch_steps = 1;
  int64_t epochs = 1;
  /// Whether the state of the best epoch is kept besides the current one's, as
  /// early stopping asks for.
  bool keeps_best = false;
  /// The types of a heterograph, in the order of the manifest; both empty for
  /// a graph of one node type and one edge type.
  std::vector<NodeTypeShape> node_types = {};
  std::vector<EdgeTypeShape> edge_types = {};
  /// The node type whose labels are predicted.
  size_t target_type = 0;
  /// Labeled training nodes of each class; empty for other labels.
  std::vector<int64_t> class_counts = {};

  /// At least 1.
  size_t num_node_types() const {
    return std::max<size_t>(1, node_types.size());
  }
  size_t num_edge_types() const {
    return std::max<size_t>(1, edge_types.size());
  }

  /// INVALID_ARGUMENT naming the figure at fault.
  absl::Status Validate() const;
};

/// Width of the embeddings that the model's last layer takes; 0 if that layer
/// is the only one, and without a model.
int64_t TopWidth(const ModelOptions& options, const ModelShape& shape);

/// The learning rate of each step of a training, a function of the step's
/// number alone: a training that was resumed goes on with the rates that it
/// would have had. With W steps of warm-up, base rate r and n = step - W:
///
///   warm-up    r * (step + 1) / W                           for step < W
///   constant   r
///   cosine     m + (r - m) * (1 + cos(pi * n / (all - W))) / 2
///   step       r * gamma ^ floor(n / (steps of `epochs` epochs))
///
/// The latter two are those of torch's CosineAnnealingLR and StepLR.
/// Thread-safe.
class LearningRate {
 public:
  /// REQUIRES: both are valid.
  LearningRate(const TrainOptions& options, const ModelShape& shape);

  /// Takes the number of the step, from 0.
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
