#ifndef HEARTH_ENGINE_INGEST_EXPORT_SOURCE_EDGES_H_
#define HEARTH_ENGINE_INGEST_EXPORT_SOURCE_EDGES_H_

#include <memory>

#include "absl/status/status.h"
#include "engine/ingest/source/edge_source.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"

namespace hearth::ingest {

/// Edges as a list, whichever way they are given: what it needs beyond
/// `edges`, which must outlive it, is owned.
class EdgeList {
 public:
  explicit EdgeList(SourceEdges& edges);

  EdgeSource& operator*() const { return *list_; }
  EdgeSource* operator->() const { return list_; }

 private:
  std::unique_ptr<EdgeSource> owned_;
  EdgeSource* list_;
};

/// Turns edges that are a list into CSC, in scratch files of the context; the
/// others stay. Errors as BuildCsc.
absl::Status CompressEdges(ImportContext& context, const EdgeEnds& ends,
                           SourceEdges& edges);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_EXPORT_SOURCE_EDGES_H_
