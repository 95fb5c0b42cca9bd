#include "engine/job/labeled_split.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace hearth::job {
namespace {

template <typename Entry>
std::string TypeNames(const std::vector<Entry>& types) {
  return absl::StrJoin(types, ", ", [](std::string* out, const Entry& type) {
    absl::StrAppend(out, type.name);
  });
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

absl::Status CheckTrainable(const store::Dataset& dataset) {
  const store::Manifest& manifest = dataset.manifest();
  if (manifest.node_types.size() != 1 || manifest.edge_types.size() > 1) {
    return absl::UnimplementedError(absl::StrCat(
        "dataset ", manifest.name, " has node types ",
        TypeNames(manifest.node_types), " and edge types ",
        TypeNames(manifest.edge_types), "; models train on one of each"));
  }
  const store::NodeTypeEntry& nodes = manifest.node_types[0];
  const char* lacking = nullptr;
  if (manifest.edge_types.empty()) lacking = "edges";
  if (nodes.train.path.empty()) lacking = "training nodes";
  if (nodes.labels.path.empty()) lacking = "labels";
  if (nodes.features.path.empty()) lacking = "features";
  if (lacking == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "dataset ", manifest.name, " has no ", lacking, " to train with"));
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
