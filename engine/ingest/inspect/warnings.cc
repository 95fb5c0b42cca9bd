#include "engine/ingest/inspect/warnings.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace hearth::ingest {
namespace {

constexpr size_t kMaxNamedColumns = 5;
// With fewer edges, homophily is a matter of luck.
constexpr int64_t kMinEdgesForHomophily = 10'000;

uint64_t Count(int64_t count) { return static_cast<uint64_t>(count); }

/// Whether `part` is more than `percent` of 100 of `all`.
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

/// Those that are not constant: these equal anything that is.
std::vector<uint32_t> Varying(const std::vector<uint32_t>& columns,
                              const FeatureStatistics& features) {
  std::vector<uint32_t> varying;
  std::set_difference(
      columns.begin(), columns.end(), features.constant_columns.begin(),
      features.constant_columns.end(), std::back_inserter(varying));
  return varying;
}

/// Collects the warnings about nodes of one type.
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

}  // namespace hearth::ingest
