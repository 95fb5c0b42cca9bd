#ifndef HEARTH_ENGINE_INGEST_EXPORT_SOURCE_PARTS_H_
#define HEARTH_ENGINE_INGEST_EXPORT_SOURCE_PARTS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/ingest/source/source_graph.h"

namespace hearth::ingest {

/// The parts of a graph that a format needs.
struct NeededParts {
  bool one_type = true;
  bool features = true;
  bool labels = true;
  bool split = true;
  /// Otherwise labels that are written must be classes.
  bool any_label_kind = false;
  /// Of the split, all parts; otherwise the training nodes alone.
  bool whole_split = true;
};

/// INVALID_ARGUMENT, naming the format and what the graph lacks; and as
/// CheckTypes and CheckHeaders.
absl::Status CheckParts(const SourceGraph& graph, absl::string_view format,
                        const NeededParts& needed = {});

/// OK if the nodes of one type have the needed parts; errors as CheckParts.
absl::Status CheckNodeParts(const SourceNodes& nodes, absl::string_view format,
                            const NeededParts& needed = {});

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_EXPORT_SOURCE_PARTS_H_
