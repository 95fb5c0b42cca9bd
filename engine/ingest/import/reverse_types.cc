#include "engine/ingest/import/reverse_types.h"

#include <memory>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/import/csc_builder.h"
#include "engine/ingest/import/edge_adaptors.h"
#include "engine/ingest/import/source_checks.h"
#include "engine/ingest/import/written_array.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/csc_edges.h"

namespace hearth::ingest {
namespace {

constexpr char kPrefix[] = "rev_";

/// "writes" of "author:writes:paper"; all of a name that is not like that.
absl::string_view RelationOf(const SourceEdges& edges) {
  absl::string_view relation = edges.type;
  const std::string source = absl::StrCat(edges.source_type, ":");
  const std::string destination = absl::StrCat(":", edges.destination_type);
  if (relation.size() > source.size() + destination.size() &&
      absl::StartsWith(relation, source) &&
      absl::EndsWith(relation, destination)) {
    relation.remove_prefix(source.size());
    relation.remove_suffix(destination.size());
  }
  return relation;
}

/// The name of the edges in the other direction, with that relation.
std::string NameOfReverse(const SourceEdges& edges,
                          absl::string_view relation) {
  return RelationOf(edges) == edges.type
             ? std::string(relation)
             : absl::StrCat(edges.destination_type, ":", relation, ":",
                            edges.source_type);
}

EdgeEnds Swapped(const EdgeEnds& ends) {
  return {ends.num_destinations, ends.num_sources};
}

}  // namespace

std::vector<ReverseType> ReverseTypesOf(const SourceGraph& graph) {
  std::set<std::string> names;
  for (const SourceEdges& edges : graph.edges) names.insert(edges.type);
  std::vector<ReverseType> types;
  for (size_t i = 0; i < graph.edges.size(); ++i) {
    const SourceEdges& edges = graph.edges[i];
    if (edges.source_type == edges.destination_type) continue;
    absl::string_view forward = RelationOf(edges);
    if (absl::ConsumePrefix(&forward, kPrefix) &&
        names.contains(NameOfReverse(edges, forward))) {
      continue;
    }
    std::string name =
        NameOfReverse(edges, absl::StrCat(kPrefix, RelationOf(edges)));
    if (!names.contains(name)) types.push_back({i, std::move(name)});
  }
  return types;
}

uint64_t BytesOfReverse(const SourceGraph& graph,
                        const std::vector<ReverseType>& types) {
  uint64_t bytes = 0;
  for (const ReverseType& type : types) {
    const SourceEdges& edges = graph.edges[type.edge_type];
    bytes += BytesToSort(edges.num_edges(), Swapped(graph.EndsOf(edges)));
  }
  return bytes;
}

absl::StatusOr<CscArrays> ReverseWritten(ImportContext& context,
                                         const std::string& folder,
                                         const store::EdgeTypeEntry& edges,
                                         const EdgeEnds& ends,
                                         const store::ArrayPlace& place) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<ArrayReader> indptr,
                          OpenWritten(context.files(), folder, edges.indptr));
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<ArrayReader> indices,
                          OpenWritten(context.files(), folder, edges.indices));
  HEARTH_ASSIGN_OR_RETURN(
      std::unique_ptr<EdgeSource> forward,
      NewCscEdgeSource(std::move(indptr), std::move(indices), ends));
  const std::unique_ptr<EdgeSource> reversed =
      NewReversedEdges(std::move(forward));
  return BuildCsc(context, *reversed, Swapped(ends), place);
}

}  // namespace hearth::ingest
