#include "engine/ingest/import/edge_import.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/import/csc_builder.h"
#include "engine/ingest/import/csc_copy.h"
#include "engine/ingest/import/csc_transform.h"
#include "engine/ingest/import/edge_adaptors.h"
#include "engine/ingest/import/written_array.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/csc_edges.h"
#include "engine/io/file_system.h"
#include "engine/store/array_writer.h"

namespace hearth::ingest {
namespace {

bool JoinsOneType(const SourceEdges& edges) {
  return edges.source_type == edges.destination_type;
}

/// Sorts the edges into a folder of their own first; then their lists change.
absl::StatusOr<TransformedCsc> BuildAndTransform(
    ImportContext& context, EdgeSource& edges, const EdgeEnds& ends,
    const EdgeTransforms& transforms, const store::ArrayPlace& place) {
  HEARTH_ASSIGN_OR_RETURN(const std::string folder,
                          context.NewScratchPath("sorted"));
  io::FileSystem& files = context.files();
  HEARTH_RETURN_IF_ERROR(files.CreateDirectory(folder));
  HEARTH_ASSIGN_OR_RETURN(
      const CscArrays sorted,
      BuildCsc(context, edges, ends, {folder, place.dataset, place.prefix}));
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<ArrayReader> indptr,
                          OpenWritten(files, folder, sorted.indptr.file));
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<ArrayReader> indices,
                          OpenWritten(files, folder, sorted.indices.file));
  HEARTH_ASSIGN_OR_RETURN(
      TransformedCsc transformed,
      TransformCsc(context, *indptr, *indices, transforms, place));
  HEARTH_RETURN_IF_ERROR(files.RemoveTree(folder));
  return transformed;
}

void AddTransforms(const std::string& type, const TransformedCsc& transformed,
                   const EdgeTransforms& transforms,
                   std::vector<std::string>& told) {
  if (transforms.remove_duplicates) {
    told.push_back(absl::StrCat(type, ": ", transformed.duplicates_removed,
                                " duplicate edges removed"));
  }
  if (transforms.self_loops != SelfLoops::kKeep) {
    told.push_back(absl::StrCat(type, ": ", transformed.self_loops_removed,
                                " self loops removed"));
  }
  if (transforms.self_loops == SelfLoops::kAdd) {
    told.push_back(absl::StrCat(type, ": ", transformed.self_loops_added,
                                " self loops added"));
  }
}

}  // namespace

absl::Status PrepareEdges(SourceGraph& graph, const EdgeTransforms& transforms,
                          const std::string& source) {
  if (!transforms.IsAny()) return absl::OkStatus();
  bool found = false;
  for (SourceEdges& edges : graph.edges) {
    if (!JoinsOneType(edges)) continue;
    found = true;
    if (edges.edges == nullptr) {
      HEARTH_ASSIGN_OR_RETURN(
          edges.edges,
          NewCscEdgeSource(std::move(edges.indptr), std::move(edges.indices),
                           graph.EndsOf(edges)));
    }
    if (transforms.add_reverse) {
      edges.edges = NewEdgesWithReverse(std::move(edges.edges));
    }
  }
  if (found || !transforms.ChangesLists()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(source,
                   ": no edges join nodes of one type; duplicates are removed "
                   "from such edges alone, and self loops are such edges"));
}

absl::StatusOr<ImportedEdges> ImportEdges(ImportContext& context,
                                          SourceEdges& edges,
                                          const EdgeEnds& ends,
                                          const EdgeTransforms& transforms,
                                          const store::ArrayPlace& place) {
  ImportedEdges imported;
  if (edges.edges == nullptr) {
    HEARTH_ASSIGN_OR_RETURN(
        imported.arrays,
        CopyCsc(context, *edges.indptr, *edges.indices, ends, place));
    return imported;
  }
  if (transforms.add_reverse && JoinsOneType(edges)) {
    imported.transforms.push_back(absl::StrCat(edges.type, ": ",
                                               edges.edges->num_edges() / 2,
                                               " reverse edges added"));
  }
  imported.transforms.push_back(
      absl::StrCat(edges.type, ": sorted by destination"));
  if (!transforms.ChangesLists() || !JoinsOneType(edges)) {
    HEARTH_ASSIGN_OR_RETURN(imported.arrays,
                            BuildCsc(context, *edges.edges, ends, place));
    return imported;
  }
  HEARTH_ASSIGN_OR_RETURN(
      TransformedCsc transformed,
      BuildAndTransform(context, *edges.edges, ends, transforms, place));
  AddTransforms(edges.type, transformed, transforms, imported.transforms);
  imported.arrays = std::move(transformed.arrays);
  return imported;
}

}  // namespace hearth::ingest
