#include "engine/ingest/import/source_checks.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "engine/ingest/import/csc_arrays.h"
#include "engine/ingest/import/feature_import.h"
#include "engine/ingest/import/label_import.h"
#include "engine/ingest/import/node_import.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/edge_source.h"
#include "engine/store/array_type.h"
#include "engine/store/array_writer.h"
#include "engine/store/feature_rows.h"
#include "engine/store/npy.h"

namespace hearth::ingest {
namespace {

// Manifest, and rounding of file sizes to disk blocks.
constexpr uint64_t kOverheadBytes = 1 << 20;

absl::Status CheckNodeHeaders(const SourceNodes& nodes, bool in_place) {
  if (nodes.features != nullptr) {
    HEARTH_RETURN_IF_ERROR(CheckFeatureHeader(*nodes.features, in_place));
    const int64_t rows = nodes.features->header().shape[0];
    if (rows != nodes.num_nodes) {
      return nodes.features->Error(absl::StrCat(
          "has ", rows, " rows; there are ", nodes.num_nodes, " nodes"));
    }
  }
  if (nodes.labels != nullptr) {
    HEARTH_RETURN_IF_ERROR(
        CheckLabelHeader(*nodes.labels, nodes.num_nodes, nodes.label_kind));
  }
  for (size_t i = 0; i < nodes.split.size(); ++i) {
    if (nodes.split[i] == nullptr) continue;
    HEARTH_RETURN_IF_ERROR(CheckSplitHeader(*nodes.split[i], nodes.num_nodes,
                                            nodes.split_is_mask[i]));
  }
  if (nodes.ids != nullptr) {
    HEARTH_RETURN_IF_ERROR(CheckIdHeader(*nodes.ids, nodes.num_nodes));
  }
  if (nodes.id_text != nullptr) {
    HEARTH_RETURN_IF_ERROR(CheckIdTextHeader(*nodes.id_text));
  }
  return absl::OkStatus();
}

uint64_t BytesOfNodes(const SourceNodes& nodes, bool in_place) {
  uint64_t bytes = 0;
  if (nodes.features != nullptr) {
    const store::ArrayHeader& header = nodes.features->header();
    const int64_t row_bytes =
        header.shape[1] * store::SizeOf(StoredType(header));
    bytes += FeatureBytes(header.shape[0], row_bytes);
    if (in_place) bytes -= static_cast<uint64_t>(header.shape[0] * row_bytes);
  }
  if (nodes.labels != nullptr) {
    bytes += store::StoredBytes(
        ImportedLabelBytes(nodes.labels->header(), nodes.label_kind),
        store::kStreamAccess);
  }
  for (const std::unique_ptr<ArrayReader>& part : nodes.split) {
    if (part == nullptr) continue;
    bytes += store::StoredBytes(
        static_cast<uint64_t>(part->header().shape[0]) * sizeof(int64_t),
        store::kStreamAccess);
  }
  for (const ArrayReader* ids : {nodes.ids.get(), nodes.id_text.get()}) {
    if (ids == nullptr) continue;
    const store::ArrayHeader& header = ids->header();
    bytes += store::StoredBytes(
        static_cast<uint64_t>(header.NumElements() * header.type.item_bytes),
        store::kStreamAccess);
  }
  return bytes;
}

uint64_t BytesOfTopology(int64_t num_edges, const EdgeEnds& ends) {
  return store::StoredBytes(
             static_cast<uint64_t>(ends.num_destinations + 1) * sizeof(int64_t),
             store::kStreamAccess) +
         store::StoredBytes(static_cast<uint64_t>(num_edges) *
                                static_cast<uint64_t>(
                                    store::SizeOf(IndexType(ends.num_sources))),
                            store::kStreamAccess);
}

}  // namespace

absl::Status CheckHeaders(const SourceGraph& graph, bool in_place) {
  for (const SourceNodes& some : graph.nodes) {
    HEARTH_RETURN_IF_ERROR(CheckNodeHeaders(some, in_place));
  }
  for (const SourceEdges& some : graph.edges) {
    if (some.edges != nullptr) continue;
    HEARTH_RETURN_IF_ERROR(
        CheckCscHeaders(*some.indptr, *some.indices, graph.EndsOf(some)));
  }
  return absl::OkStatus();
}

uint64_t FeatureBytes(int64_t num_rows, int64_t row_bytes) {
  return store::StoredBytes(static_cast<uint64_t>(num_rows * row_bytes),
                            store::kRandomAccess) +
         store::RowChecksumBytes(num_rows);
}

uint64_t BytesToSort(int64_t num_edges, const EdgeEnds& ends) {
  return BytesOfTopology(num_edges, ends) +
         static_cast<uint64_t>(num_edges * ScratchEdgeBytes(ends));
}

uint64_t BytesToImport(const SourceGraph& graph, bool in_place) {
  uint64_t bytes = kOverheadBytes;
  for (const SourceNodes& some : graph.nodes) {
    bytes += BytesOfNodes(some, in_place);
  }
  for (const SourceEdges& some : graph.edges) {
    const EdgeEnds ends = graph.EndsOf(some);
    bytes += some.edges != nullptr ? BytesToSort(some.num_edges(), ends)
                                   : BytesOfTopology(some.num_edges(), ends);
  }
  return bytes;
}

}  // namespace hearth::ingest
