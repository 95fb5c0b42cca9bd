#include "engine/ingest/inspect/graph_scan.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/ingest/inspect/statistics.h"
#include "engine/ingest/inspect/topology_scan.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/import_context.h"
#include "engine/io/file_system.h"
#include "engine/store/labels.h"
#include "engine/store/manifest.h"

namespace hearth::ingest {

namespace {

constexpr size_t kMaxNamedColumns = 5;
// With fewer edges, homophily is a matter of luck.
constexpr int64_t kMinEdgesForHomophily = 10'000;

uint64_t Count(int64_t count) { return static_cast<uint64_t>(count); }

/// Whether `part` is more than `percent` percent of `all`.
bool IsMoreThan(uint64_t part, double percent, uint64_t all) {
  return static_cast<double>(part) * 100 > percent * static_cast<double>(all);
}

std::string Columns(const std::vector<uint32_t>& columns) {
  const size_t named = std::min(columns.size(), kMaxNamedColumns);
  return absl::StrCat(
      columns.size() == 1 ? "column " : "columns ",
      absl::StrJoin(columns.begin(), columns.begin() + named, ", "),
      columns.size() > named ? ", ..." : "");
}

/// Columns that are not constant; constant columns equal anything constant.
std::vector<uint32_t> Varying(const std::vector<uint32_t>& columns,
                              const FeatureStatistics& features) {
  std::vector<uint32_t> varying;
  std::set_difference(
      columns.begin(), columns.end(), features.constant_columns.begin(),
      features.constant_columns.end(), std::back_inserter(varying));
  return varying;
}

/// Collects warnings about the nodes of one type.
class NodeWarnings {
 public:
  NodeWarnings(const store::NodeTypeEntry& nodes,
               const NodeStatistics& statistics, const NodeProbes& probes,
               std::vector<std::string>& warnings)
      : nodes_(nodes),
        statistics_(statistics),
        probes_(probes),
        num_nodes_(Count(nodes.num_nodes)),
        num_train_(nodes.train.path.empty() ? 0 : Count(nodes.train.shape[0])),
        warnings_(warnings) {}

  void Find() {
    FindInEdges();
    FindInLabels();
    if (!statistics_.features.has_value()) return;
    FindInColumns(*statistics_.features);
    FindInValues(*statistics_.features);
  }

 private:
  template <typename... Parts>
  void Warn(const Parts&... parts) {
    warnings_.push_back(
        absl::StrCat("nodes \"", nodes_.name, "\": ", parts...));
  }

  void FindInEdges() {
    const uint64_t only_sources = probes_.num_train_only_sources.value_or(0);
    if (IsMoreThan(only_sources, 50, num_train_)) {
      Warn(only_sources, " of ", num_train_,
           " training nodes have edges from them but none to them: they would "
           "be trained without neighbors; the edges may be the wrong way "
           "round, or need their reverse");
    }
    const uint64_t isolated = statistics_.num_isolated.value_or(0);
    if (IsMoreThan(isolated, 50, num_nodes_)) {
      Warn(isolated, " of ", num_nodes_, " have no edge");
    }
  }

  void FindInLabels() {
    if (nodes_.labels.path.empty() || num_train_ == 0) return;
    for (const auto& [part, file] : {std::pair("validation", &nodes_.valid),
                                     std::pair("test", &nodes_.test)}) {
      if (!file->path.empty()) continue;
      Warn("there are no ", part, " nodes: jobs leave the ", part, " out");
    }
    FindInClasses();
    if (probes_.num_train_unlabeled > 0) {
      Warn(probes_.num_train_unlabeled, " of ", num_train_,
           " training nodes have no label; jobs leave them out");
    }
    if (probes_.num_untrained_classes > 0) {
      Warn(probes_.num_untrained_classes,
           " classes that nodes have are not among the training nodes, the "
           "first of them ",
           probes_.first_untrained_class, ": they cannot be learned");
    }
  }

  void FindInClasses() {
    if (probes_.one_label_each) {
      Warn("each has exactly one of ", nodes_.label_width,
           " labels: are they classes (one-hot)? Given as one number a node, "
           "they are trained as classes");
    }
    const uint64_t empty = probes_.num_empty_classes;
    const int64_t first = probes_.first_empty_class;
    if (empty == 0) return;
    std::string cause = "the model has an output for each";
    const auto last = static_cast<size_t>(nodes_.label_width - 1);
    if (last == UINT8_MAX && last < statistics_.class_counts.size()) {
      cause =
          absl::StrCat("class ", last, ", of ", statistics_.class_counts[last],
                       " nodes, may stand for no label, which is -1 or NaN");
    } else if (empty == 1 && first == 0) {
      cause = "do the labels begin at 1?";
    }
    Warn(empty, " of ", nodes_.label_width, " classes have no nodes",
         empty == 1 ? ", class " : ", the first of them class ", first, ": ",
         cause);
  }

  void FindInColumns(const FeatureStatistics& features) {
    const SuspectColumns& suspects = probes_.suspects;
    const std::vector<uint32_t> labels = Varying(suspects.labels, features);
    if (!labels.empty()) {
      Warn("the label of every labeled node is among its features (",
           Columns(labels), ")");
    }
    const std::vector<uint32_t> numbers =
        Varying(suspects.row_numbers, features);
    if (!numbers.empty()) {
      Warn("features hold the number of the node (", Columns(numbers), ")");
    }
    const std::vector<uint32_t> whole =
        Varying(suspects.whole_numbers, features);
    if (nodes_.features.shape[1] == 1 && !whole.empty()) {
      Warn(
          "the only feature is a small whole number throughout: it may be "
          "labels or ids in the place of features");
    }
    const size_t constant = features.constant_columns.size();
    if (constant > 0 && num_nodes_ > 1) {
      Warn(constant == kMaxListedStatistics ? "at least " : "", constant,
           " of ", nodes_.features.shape[1],
           " features have one value throughout (",
           Columns(features.constant_columns), ")");
    }
  }

  void FindInValues(const FeatureStatistics& features) {
    if (probes_.begins_like_npy) {
      Warn(
          "the first row of features begins like an .npy file: its header "
          "may have been taken for values, which shifts every row");
    }
    if (IsMoreThan(features.num_zero_rows, 10, num_nodes_)) {
      Warn(features.num_zero_rows, " of ", num_nodes_,
           " have nothing but 0 as features");
    }
    if (features.num_non_finite > 0) {
      Warn(features.num_non_finite,
           " feature values are NaN or infinite: they spread to all nodes "
           "that are computed from them");
    }
  }

  const store::NodeTypeEntry& nodes_;
  const NodeStatistics& statistics_;
  const NodeProbes& probes_;
  const uint64_t num_nodes_;
  const uint64_t num_train_;
  std::vector<std::string>& warnings_;
};

}  // namespace

std::vector<std::string> FindWarnings(const store::Manifest& manifest,
                                      const DatasetStatistics& statistics,
                                      absl::Span<const NodeProbes> probes) {
  std::vector<std::string> warnings;
  for (size_t i = 0; i < manifest.node_types.size(); ++i) {
    NodeWarnings(manifest.node_types[i], statistics.nodes[i], probes[i],
                 warnings)
        .Find();
  }
  for (size_t i = 0; i < manifest.edge_types.size(); ++i) {
    const store::EdgeTypeEntry& edges = manifest.edge_types[i];
    const std::optional<double> homophily = statistics.edges[i].homophily;
    if (!homophily || edges.num_edges <= kMinEdgesForHomophily) continue;
    const auto nodes = std::find_if(
        manifest.node_types.begin(), manifest.node_types.end(),
        [&](const auto& some) { return some.name == edges.source_type; });
    const std::optional<double> chance =
        probes[nodes - manifest.node_types.begin()].chance_homophily;
    if (!chance || *homophily > *chance) continue;
    warnings.push_back(absl::StrFormat(
        "edges \"%s\": %.1f%% of them join nodes of one class, random ones "
        "would be %.1f%%: ids of edges and labels may not be the same",
        edges.name, *homophily * 100, *chance * 100));
  }
  return warnings;
}

namespace {

constexpr uint64_t kMaxBlockBytes = 4 << 20;
// Per class: its count, and whether a training node has it.
constexpr uint64_t kBytesPerClass = 2 * sizeof(uint64_t);

/// Bytes by which ScanLabels advances the context.
uint64_t LabelBytesToScan(const store::NodeTypeEntry& nodes) {
  if (nodes.labels.path.empty()) return 0;
  return nodes.labels.file_size_bytes - nodes.labels.data_offset;
}

/// Rows of labels in stored form.
store::LabelsView ViewOf(const store::NodeTypeEntry& nodes, int64_t num_rows,
                         absl::Span<const std::byte> bytes) {
  store::LabelsView view;
  view.kind = nodes.label_kind;
  view.num_rows = num_rows;
  view.width = nodes.label_width;
  view.partial = store::HasPartialLabels(nodes);
  switch (nodes.label_kind) {
    case store::LabelKind::kClasses:
      view.classes = {reinterpret_cast<const int32_t*>(bytes.data()),
                      bytes.size() / sizeof(int32_t)};
      break;
    case store::LabelKind::kMultiLabel:
      view.bits = {reinterpret_cast<const uint8_t*>(bytes.data()),
                   bytes.size()};
      break;
    case store::LabelKind::kTargets:
      view.targets = {reinterpret_cast<const float*>(bytes.data()),
                      bytes.size() / sizeof(float)};
      break;
  }
  return view;
}

/// Whether a labeled multi-label row has exactly one label.
bool HasOneLabel(const store::LabelsView& labels, int64_t row) {
  const uint8_t* bits = labels.BitRow(row);
  int count = 0;
  for (int64_t i = 0; i < store::MultiLabelRowBytes(labels.width); ++i) {
    count += std::popcount(bits[i]);
  }
  // One of the two bits says that the row is labeled.
  return count == 2;
}

class LabelScan {
 public:
  LabelScan(ImportContext& context, const store::NodeTypeEntry& nodes)
      : context_(context), nodes_(nodes) {
    if (nodes.label_kind == store::LabelKind::kTargets) return;
    const auto width = static_cast<uint64_t>(nodes.label_width);
    const uint64_t fitting = context.memory_limit_bytes() / 4 / kBytesPerClass;
    counts_.resize(std::min(width, fitting));
    trained_.resize(counts_.size());
  }

  absl::Status Run(const std::string& folder) {
    const std::string path = io::JoinPath(folder, nodes_.labels.path);
    HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<ArrayReader> labels,
                            ArrayReader::OpenNpy(context_.files(), path));
    std::optional<IdStream> train;
    if (!nodes_.train.path.empty()) {
      HEARTH_ASSIGN_OR_RETURN(
          train, IdStream::Open(context_.files(),
                                io::JoinPath(folder, nodes_.train.path)));
    }
    const uint64_t row_bytes =
        LabelBytesToScan(nodes_) / static_cast<uint64_t>(nodes_.num_nodes);
    const uint64_t block_bytes =
        std::min(kMaxBlockBytes, context_.memory_limit_bytes() / 8);
    const auto block_rows =
        static_cast<int64_t>(std::max<uint64_t>(1, block_bytes / row_bytes));
    const int64_t row_items = labels->header().NumElements() / nodes_.num_nodes;
    std::vector<std::byte> bytes;
    for (int64_t first = 0; first < nodes_.num_nodes; first += block_rows) {
      const int64_t rows = std::min(block_rows, nodes_.num_nodes - first);
      bytes.resize(static_cast<uint64_t>(rows) * row_bytes);
      HEARTH_RETURN_IF_ERROR(
          labels->ReadBytes(first * row_items, absl::MakeSpan(bytes)));
      const store::LabelsView view = ViewOf(nodes_, rows, bytes);
      for (int64_t row = 0; row < rows; ++row) Add(view, row);
      while (train && !train->AtEnd() && train->id() < first + rows) {
        AddTrain(view, train->id() - first);
        HEARTH_RETURN_IF_ERROR(train->Next());
      }
      HEARTH_RETURN_IF_ERROR(context_.Advance(bytes.size()));
    }
    return absl::OkStatus();
  }

  void Report(NodeStatistics& statistics, NodeProbes& probes) const {
    statistics.num_unlabeled = num_unlabeled_;
    statistics.class_counts.assign(
        counts_.begin(),
        counts_.begin() + std::min(counts_.size(), kMaxListedStatistics));
    probes.num_train_unlabeled = num_train_unlabeled_;
    probes.one_label_each =
        nodes_.label_kind == store::LabelKind::kMultiLabel &&
        nodes_.label_width > 1 && num_with_one_label_ > 0 &&
        num_with_one_label_ + num_unlabeled_ == Count(nodes_.num_nodes);
    if (nodes_.label_kind != store::LabelKind::kClasses) return;
    const bool counted_all = counts_.size() == Count(nodes_.label_width);
    for (size_t i = counts_.size(); i-- > 0;) {
      if (counts_[i] == 0 && counted_all) {
        ++probes.num_empty_classes;
        probes.first_empty_class = static_cast<int64_t>(i);
      }
      if (counts_[i] == 0 || trained_[i]) continue;
      ++probes.num_untrained_classes;
      probes.first_untrained_class = static_cast<int64_t>(i);
    }
    const auto labeled = static_cast<double>(nodes_.num_nodes) -
                         static_cast<double>(num_unlabeled_);
    if (labeled == 0 || !counted_all) return;
    double chance = 0;
    for (const uint64_t count : counts_) {
      const double share = static_cast<double>(count) / labeled;
      chance += share * share;
    }
    probes.chance_homophily = chance;
  }

 private:
  void Add(const store::LabelsView& labels, int64_t row) {
    if (!labels.IsLabeled(row)) {
      ++num_unlabeled_;
    } else if (labels.kind == store::LabelKind::kClasses) {
      const auto label = static_cast<size_t>(labels.classes[row]);
      if (label < counts_.size()) ++counts_[label];
    } else if (labels.kind == store::LabelKind::kMultiLabel) {
      num_with_one_label_ += HasOneLabel(labels, row);
      const size_t listed = std::min(counts_.size(), kMaxListedStatistics);
      for (size_t i = 0; i < listed; ++i) {
        counts_[i] +=
            store::HasBit(labels.BitRow(row), static_cast<int64_t>(i));
      }
    }
  }

  void AddTrain(const store::LabelsView& labels, int64_t row) {
    if (!labels.IsLabeled(row)) {
      ++num_train_unlabeled_;
    } else if (labels.kind == store::LabelKind::kClasses) {
      const auto label = static_cast<size_t>(labels.classes[row]);
      if (label < trained_.size()) trained_[label] = true;
    }
  }

  ImportContext& context_;
  const store::NodeTypeEntry& nodes_;
  /// Number of nodes of each class or label.
  std::vector<uint64_t> counts_;
  std::vector<bool> trained_;
  uint64_t num_unlabeled_ = 0;
  uint64_t num_with_one_label_ = 0;
  uint64_t num_train_unlabeled_ = 0;
};

/// Computes statistics of the stored labels and training nodes of one type:
/// sets num_unlabeled and class_counts, and in `probes` the members about
/// labels. Advances the context by the bytes of the labels. Does not count
/// classes whose counts exceed a quarter of the memory limit.
absl::Status ScanLabels(ImportContext& context, const std::string& folder,
                        const store::NodeTypeEntry& nodes,
                        NodeStatistics& statistics, NodeProbes& probes) {
  if (nodes.labels.path.empty()) {
    statistics.num_unlabeled = static_cast<uint64_t>(nodes.num_nodes);
    return absl::OkStatus();
  }
  LabelScan scan(context, nodes);
  HEARTH_RETURN_IF_ERROR(scan.Run(folder));
  scan.Report(statistics, probes);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DatasetStatistics> ScanGraph(
    ImportContext& context, const std::string& folder,
    const store::Manifest& manifest,
    absl::Span<const std::optional<ScannedFeatures>> features) {
  TopologyScan topology(context, folder, manifest);
  uint64_t bytes = topology.BytesToScan();
  for (const store::NodeTypeEntry& nodes : manifest.node_types) {
    bytes += LabelBytesToScan(nodes);
  }
  context.Begin("counting", bytes);
  DatasetStatistics statistics;
  for (const store::EdgeTypeEntry& edges : manifest.edge_types) {
    HEARTH_ASSIGN_OR_RETURN(EdgeStatistics some, topology.Scan(edges));
    statistics.edges.push_back(std::move(some));
  }
  std::vector<NodeProbes> probes(manifest.node_types.size());
  for (size_t i = 0; i < probes.size(); ++i) {
    const store::NodeTypeEntry& nodes = manifest.node_types[i];
    NodeStatistics some;
    some.type = nodes.name;
    some.num_isolated = topology.NumIsolated(i);
    HEARTH_ASSIGN_OR_RETURN(probes[i].num_train_only_sources,
                            topology.NumTrainOnlySources(i));
    HEARTH_RETURN_IF_ERROR(ScanLabels(context, folder, nodes, some, probes[i]));
    if (features[i].has_value()) {
      some.features = features[i]->statistics;
      probes[i].suspects = features[i]->suspects;
      probes[i].begins_like_npy = features[i]->begins_like_npy;
    }
    statistics.nodes.push_back(std::move(some));
  }
  statistics.notes = topology.Notes();
  statistics.warnings = FindWarnings(manifest, statistics, probes);
  return statistics;
}

}  // namespace hearth::ingest
