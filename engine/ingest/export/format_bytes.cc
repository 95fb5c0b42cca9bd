#include "engine/ingest/export/format_bytes.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/ingest/import/feature_import.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/edge_source.h"
#include "engine/store/dtype.h"

namespace hearth::ingest {
namespace {

// Headers, metadata, and the rounding of files to blocks of the disk.
constexpr uint64_t kOverheadBytes = 1 << 20;
constexpr uint64_t kIdBytes = sizeof(int64_t);

uint64_t NumElements(const ArrayReader& array) {
  return static_cast<uint64_t>(array.header().NumElements());
}

uint64_t BytesOfNodes(const SourceNodes& nodes, const FormatSize& size) {
  uint64_t bytes = 0;
  if (nodes.ids != nullptr) bytes += NumElements(*nodes.ids) * kIdBytes;
  if (nodes.id_text != nullptr) bytes += NumElements(*nodes.id_text);
  if (!size.has_node_data) return bytes;
  if (nodes.features != nullptr) {
    bytes += NumElements(*nodes.features) *
             size.feature_bytes.value_or(static_cast<uint64_t>(
                 store::SizeOf(StoredType(nodes.features->header()))));
  }
  if (nodes.labels != nullptr) bytes += NumElements(*nodes.labels) * kIdBytes;
  for (const auto& part : nodes.split) {
    // An id, and its label in GraphBolt's sets.
    if (part != nullptr) bytes += NumElements(*part) * 2 * kIdBytes;
  }
  return bytes;
}

/// A line of both ids, a separator and the line's end.
uint64_t TextBytes(const EdgeEnds& ends) {
  const int64_t largest = std::max(ends.num_sources, ends.num_destinations);
  return 2 * (absl::StrCat(largest).size() + 1);
}

uint64_t BytesOfEdges(const SourceEdges& edges, const EdgeEnds& ends,
                      EdgeForm form) {
  const auto num_edges = static_cast<uint64_t>(edges.num_edges());
  const bool is_list = edges.edges != nullptr;
  const uint64_t as_pairs = num_edges * 2 * kIdBytes;
  const uint64_t as_csc =
      (static_cast<uint64_t>(ends.num_destinations) + 1 + num_edges) * kIdBytes;
  switch (form) {
    case EdgeForm::kPairs:
      return as_pairs;
    case EdgeForm::kAsGiven:
      return is_list ? as_pairs : as_csc;
    case EdgeForm::kSortedCsc:
      if (!is_list) return as_csc;
      return 2 * as_csc +
             num_edges * static_cast<uint64_t>(ScratchEdgeBytes(ends));
    case EdgeForm::kText:
      return num_edges * TextBytes(ends);
    case EdgeForm::kGzipText:
      return num_edges * TextBytes(ends) / 2;
  }
  return as_pairs;
}

}  // namespace

uint64_t BytesToWrite(const SourceGraph& graph, const FormatSize& size) {
  uint64_t bytes = kOverheadBytes;
  for (const SourceNodes& nodes : graph.nodes) {
    bytes += BytesOfNodes(nodes, size);
  }
  for (const SourceEdges& edges : graph.edges) {
    bytes += BytesOfEdges(edges, graph.EndsOf(edges), size.edges);
  }
  return bytes;
}

}  // namespace hearth::ingest
