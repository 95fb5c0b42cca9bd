#include "engine/ingest/export/source_parts.h"

#include <array>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/import/label_import.h"
#include "engine/ingest/import/source_checks.h"
#include "engine/store/label_kind.h"

namespace hearth::ingest {
namespace {

constexpr std::array<absl::string_view, 3> kPartNames = {
    "training nodes", "validation nodes", "test nodes"};

/// Most formats have a class a node; other labels would be taken for classes.
absl::Status CheckLabelsAreClasses(const SourceGraph& graph,
                                   absl::string_view format) {
  for (const SourceNodes& nodes : graph.nodes) {
    if (nodes.labels == nullptr) continue;
    const store::LabelKind kind =
        KindOfLabels(nodes.labels->header(), nodes.label_kind);
    if (kind == store::LabelKind::kClasses) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the labels of \"", nodes.type, "\" are ", Name(kind),
                     "; the format ", format, " has room for classes only"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckNodeParts(const SourceNodes& nodes, absl::string_view format,
                            const NeededParts& needed) {
  const auto missing = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the graph has no ", what, "; the format ", format, " needs them"));
  };
  if (needed.features && nodes.features == nullptr) return missing("features");
  if (needed.labels && nodes.labels == nullptr) return missing("labels");
  const size_t parts = needed.whole_split ? kPartNames.size() : 1;
  for (size_t i = 0; needed.split && i < parts; ++i) {
    if (nodes.split[i] == nullptr) return missing(kPartNames[i]);
  }
  return absl::OkStatus();
}

absl::Status CheckParts(const SourceGraph& graph, absl::string_view format,
                        const NeededParts& needed) {
  HEARTH_RETURN_IF_ERROR(graph.CheckTypes("the graph"));
  HEARTH_RETURN_IF_ERROR(CheckHeaders(graph, false));
  if (needed.labels && !needed.any_label_kind) {
    HEARTH_RETURN_IF_ERROR(CheckLabelsAreClasses(graph, format));
  }
  if (!needed.one_type) return absl::OkStatus();
  if (graph.nodes.size() != 1 || graph.edges.size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the graph has ", graph.nodes.size(), " node and ", graph.edges.size(),
        " edge types; the format ", format, " has one of each"));
  }
  return CheckNodeParts(graph.nodes[0], format, needed);
}

}  // namespace hearth::ingest
