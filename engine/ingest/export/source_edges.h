#ifndef HEARTH_ENGINE_INGEST_EXPORT_SOURCE_EDGES_H_
#define HEARTH_ENGINE_INGEST_EXPORT_SOURCE_EDGES_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/edge_source.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"

namespace hearth::ingest {

/// A topology in CSC as a list of edges, by destination. Reading on where the
/// last read ended is quick. Both arrays must outlive it. REQUIRES:
/// CheckCscHeaders. Offsets that descend, or do not end with the number of
/// edges, are INVALID_ARGUMENT.
std::unique_ptr<EdgeSource> NewCscEdgeSource(ArrayReader& indptr,
                                             ArrayReader& indices);

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
