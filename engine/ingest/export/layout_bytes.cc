#include "engine/ingest/export/layout_bytes.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/ingest/import/feature_import.h"
#include "engine/ingest/source/edge_source.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/store/dtype.h"

namespace hearth::ingest {
namespace {

// Headers, metadata, and the rounding of files to blocks of the disk.
constexpr uint64_t kOverheadBytes = 1 << 20;
constexpr uint64_t kIdBytes = sizeof(int64_t);
// "-1.17549435e-38,".
constexpr uint64_t kFloatTextBytes = 16;

uint64_t NumElements(const ArrayReader& array) {
  return static_cast<uint64_t>(array.header().NumElements());
}

uint64_t BytesOfFeature(const ArrayReader& features, Layout layout) {
  switch (layout) {
    case Layout::kEdgeList:
      return 0;
    case Layout::kOgb:
      return kFloatTextBytes / 2;
    case Layout::kGinex:
    case Layout::kIgb:
      return sizeof(float);
    case Layout::kMag240m:
      return sizeof(uint16_t);
    case Layout::kDiskGnn:
    case Layout::kGraphBolt:
    case Layout::kNumpy:
      break;
  }
  return static_cast<uint64_t>(store::SizeOf(StoredType(features.header())));
}

uint64_t BytesOfNodes(const SourceNodes& nodes, Layout layout) {
  uint64_t bytes = 0;
  if (nodes.ids != nullptr) bytes += NumElements(*nodes.ids) * kIdBytes;
  if (nodes.id_text != nullptr) bytes += NumElements(*nodes.id_text);
  if (layout == Layout::kEdgeList) return bytes;
  if (nodes.features != nullptr) {
    bytes +=
        NumElements(*nodes.features) * BytesOfFeature(*nodes.features, layout);
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
                      Layout layout) {
  const auto num_edges = static_cast<uint64_t>(edges.num_edges());
  const uint64_t as_csc =
      (static_cast<uint64_t>(ends.num_destinations) + 1 + num_edges) * kIdBytes;
  switch (layout) {
    case Layout::kEdgeList:
      return num_edges * TextBytes(ends);
    case Layout::kOgb:
      return num_edges * TextBytes(ends) / 2;
    case Layout::kDiskGnn:
    case Layout::kGinex:
      // A list is sorted in scratch files, and is CSC there first.
      return edges.edges == nullptr
                 ? as_csc
                 : 2 * as_csc + num_edges * static_cast<uint64_t>(
                                                ScratchEdgeBytes(ends));
    case Layout::kNumpy:
      if (edges.edges == nullptr) return as_csc;
      break;
    case Layout::kGraphBolt:
    case Layout::kIgb:
    case Layout::kMag240m:
      break;
  }
  return num_edges * 2 * kIdBytes;
}

}  // namespace

uint64_t BytesToWrite(const SourceGraph& graph, Layout layout) {
  uint64_t bytes = kOverheadBytes;
  for (const SourceNodes& nodes : graph.nodes) {
    bytes += BytesOfNodes(nodes, layout);
  }
  for (const SourceEdges& edges : graph.edges) {
    bytes += BytesOfEdges(edges, graph.EndsOf(edges), layout);
  }
  return bytes;
}

}  // namespace hearth::ingest
