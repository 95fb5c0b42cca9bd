#include "engine/job/labeled_split.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "engine/base/status_macros.h"
#include "engine/strategy/kinds.h"

namespace hearth::job {
namespace {

template <typename Entry>
std::string TypeNames(const std::vector<Entry>& types) {
  return absl::StrJoin(types, ", ", [](std::string* out, const Entry& type) {
    absl::StrAppend(out, type.name);
  });
}

// Refuses what takes graphs of one node type and one edge type alone.
absl::Status CheckTakesTypes(const store::Manifest& manifest,
                             const DataOptions& data) {
  const std::string types =
      absl::StrCat("dataset ", manifest.name, " has node types ",
                   TypeNames(manifest.node_types), " and edge types ",
                   TypeNames(manifest.edge_types));
  if (!data.layer_nodes.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(types, "; layer_nodes: layers are drawn of one of each"));
  }
  const strategy::StrategyKind& kind = strategy::KindOf(data.strategy);
  if (!kind.takes_types) {
    return absl::UnimplementedError(
        absl::StrCat(types, "; strategy ", kind.name, " takes one of each"));
  }
  if (data.partition_order.has_value()) {
    return absl::UnimplementedError(
        absl::StrCat(types, "; partition_order takes one of each"));
  }
  return absl::OkStatus();
}

// Removes unlabeled nodes from `nodes`; a warning if there were any.
void Prune(absl::string_view part, const store::Labels& labels,
           std::vector<store::NodeId>& nodes,
           std::vector<std::string>& warnings) {
  const size_t all = nodes.size();
  const size_t unlabeled = std::erase_if(
      nodes, [&](store::NodeId node) { return !labels.IsLabeled(node); });
  if (unlabeled == 0) return;
  warnings.push_back(absl::StrCat(unlabeled, " of ", all, " ", part,
                                  " nodes have no label: left out"));
}

}  // namespace

absl::Status CheckTrainable(const store::Dataset& dataset,
                            const DataOptions& data) {
  const store::Manifest& manifest = dataset.manifest();
  if (manifest.node_types.size() != 1 || manifest.edge_types.size() > 1) {
    HEARTH_RETURN_IF_ERROR(CheckTakesTypes(manifest, data));
  }
  HEARTH_RETURN_IF_ERROR(FanoutsByType(manifest, data).status());
  const store::NodeTypeEntry& target =
      manifest.node_types[dataset.target_type()];
  std::string lacking;
  if (manifest.edge_types.empty()) lacking = "edges";
  if (target.train.path.empty()) lacking = "training nodes";
  if (target.labels.path.empty()) lacking = "labels";
  for (const store::NodeTypeEntry& type : manifest.node_types) {
    if (!type.features.path.empty()) continue;
    lacking = manifest.node_types.size() == 1
                  ? "features"
                  : absl::StrCat("features of nodes of type \"", type.name,
                                 "\" (import can fill them in)");
  }
  if (lacking.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "dataset ", manifest.name, " has no ", lacking, " to train with"));
}

absl::StatusOr<std::vector<std::vector<int32_t>>> FanoutsByType(
    const store::Manifest& manifest, const DataOptions& data) {
  std::vector<std::vector<int32_t>> fanouts;
  for (const EdgeTypeFanouts& of_type : data.fanouts_of) {
    fanouts.resize(manifest.edge_types.size());
    const auto found =
        std::find_if(manifest.edge_types.begin(), manifest.edge_types.end(),
                     [&](const store::EdgeTypeEntry& type) {
                       return of_type.edge_type == type.name ||
                              of_type.edge_type == store::RelationOf(type);
                     });
    if (found == manifest.edge_types.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "fanouts_of: dataset ", manifest.name, " has no edge type \"",
          of_type.edge_type, "\", but ", TypeNames(manifest.edge_types)));
    }
    fanouts[static_cast<size_t>(found - manifest.edge_types.begin())] =
        of_type.fanouts;
  }
  return fanouts;
}

absl::StatusOr<LabeledSplit> WithoutUnlabeled(store::Split split,
                                              const store::Labels& labels) {
  LabeledSplit labeled;
  labeled.nodes = std::move(split);
  Prune("training", labels, labeled.nodes.train, labeled.warnings);
  Prune("validation", labels, labeled.nodes.valid, labeled.warnings);
  Prune("test", labels, labeled.nodes.test, labeled.warnings);
  if (labeled.nodes.train.empty()) {
    return absl::FailedPreconditionError("no training node has a label");
  }
  return labeled;
}

}  // namespace hearth::job
