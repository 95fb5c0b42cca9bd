#include "engine/ingest/export/source_edges.h"

#include <string>

#include "engine/base/status_macros.h"
#include "engine/ingest/import/csc_builder.h"
#include "engine/ingest/source/csc_edges.h"
#include "engine/io/atomic_file.h"
#include "engine/store/array_writer.h"

namespace hearth::ingest {

EdgeList::EdgeList(SourceEdges& edges)
    : owned_(edges.edges != nullptr
                 ? nullptr
                 : NewCscEdgeSource(*edges.indptr, *edges.indices)),
      list_(owned_ != nullptr ? owned_.get() : edges.edges.get()) {}

absl::Status CompressEdges(ImportContext& context, const EdgeEnds& ends,
                           SourceEdges& edges) {
  if (edges.edges == nullptr) return absl::OkStatus();
  HEARTH_ASSIGN_OR_RETURN(const std::string path,
                          context.NewScratchPath("csc"));
  HEARTH_RETURN_IF_ERROR(context.files().CreateDirectory(path));
  const store::ArrayPlace place{path, "scratch", "edge"};
  HEARTH_ASSIGN_OR_RETURN(const CscArrays arrays,
                          BuildCsc(context, *edges.edges, ends, place));
  HEARTH_ASSIGN_OR_RETURN(
      edges.indptr,
      ArrayReader::OpenNpy(context.files(),
                           io::JoinPath(path, arrays.indptr.file.path)));
  HEARTH_ASSIGN_OR_RETURN(
      edges.indices,
      ArrayReader::OpenNpy(context.files(),
                           io::JoinPath(path, arrays.indices.file.path)));
  edges.edges = nullptr;
  return absl::OkStatus();
}

}  // namespace hearth::ingest
