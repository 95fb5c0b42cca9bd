#include "engine/ingest/source/source_graph.h"

#include <algorithm>
#include <set>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/import/csc_arrays.h"
#include "engine/ingest/import/csc_copy.h"
#include "engine/ingest/import/feature_import.h"
#include "engine/ingest/import/id_import.h"
#include "engine/ingest/import/label_import.h"
#include "engine/ingest/import/split_import.h"
#include "engine/store/array_header.h"
#include "engine/store/array_writer.h"
#include "engine/store/dtype.h"

namespace hearth::ingest {
namespace {

// Manifest and the rounding of files to blocks of the disk.
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
  for (const std::unique_ptr<store::ArrayReader>& part : nodes.split) {
    if (part == nullptr) continue;
    HEARTH_RETURN_IF_ERROR(CheckSplitHeader(*part, nodes.num_nodes));
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
    const uint64_t feature_bytes =
        static_cast<uint64_t>(header.NumElements()) *
        static_cast<uint64_t>(store::SizeOf(StoredType(header)));
    bytes += store::StoredBytes(feature_bytes, store::kRandomAccessLayout);
    if (in_place) bytes -= feature_bytes;
  }
  if (nodes.labels != nullptr) {
    bytes += store::StoredBytes(
        ImportedLabelBytes(nodes.labels->header(), nodes.label_kind),
        store::kStreamLayout);
  }
  for (const std::unique_ptr<store::ArrayReader>& part : nodes.split) {
    if (part == nullptr) continue;
    bytes += store::StoredBytes(
        static_cast<uint64_t>(part->header().shape[0]) * sizeof(int64_t),
        store::kStreamLayout);
  }
  for (const store::ArrayReader* ids : {nodes.ids.get(), nodes.id_text.get()}) {
    if (ids == nullptr) continue;
    const store::ArrayHeader& header = ids->header();
    bytes += store::StoredBytes(
        static_cast<uint64_t>(header.NumElements() * header.type.item_bytes),
        store::kStreamLayout);
  }
  return bytes;
}

uint64_t BytesOfEdges(const SourceEdges& edges, const EdgeEnds& ends) {
  const auto num_edges = static_cast<uint64_t>(edges.num_edges());
  uint64_t bytes = store::StoredBytes(
      static_cast<uint64_t>(ends.num_destinations + 1) * sizeof(int64_t),
      store::kStreamLayout);
  bytes += store::StoredBytes(num_edges * static_cast<uint64_t>(store::SizeOf(
                                              IndexType(ends.num_sources))),
                              store::kStreamLayout);
  if (edges.edges != nullptr) {
    bytes += num_edges * static_cast<uint64_t>(ScratchEdgeBytes(ends));
  }
  return bytes;
}

/// INVALID_ARGUMENT if the name is empty or among `seen`, where it is added.
absl::Status CheckNewName(const std::string& source, const char* what,
                          const std::string& name,
                          std::set<std::string>& seen) {
  if (name.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": has ", what, " types without a name"));
  }
  if (seen.insert(name).second) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(source, ": has the ", what, " type \"",
                   absl::Utf8SafeCEscape(name), "\" twice"));
}

}  // namespace

const SourceNodes* SourceGraph::FindNodes(const std::string& type) const {
  const auto found =
      std::find_if(nodes.begin(), nodes.end(),
                   [&](const SourceNodes& some) { return some.type == type; });
  return found == nodes.end() ? nullptr : &*found;
}

EdgeEnds SourceGraph::EndsOf(const SourceEdges& some) const {
  return {FindNodes(some.source_type)->num_nodes,
          FindNodes(some.destination_type)->num_nodes};
}

absl::Status SourceGraph::CheckTypes(const std::string& source) const {
  std::set<std::string> names;
  for (const SourceNodes& some : nodes) {
    HEARTH_RETURN_IF_ERROR(CheckNewName(source, "node", some.type, names));
    if (some.num_nodes > 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": has no nodes of type \"", some.type, "\""));
  }
  names.clear();
  for (const SourceEdges& some : edges) {
    HEARTH_RETURN_IF_ERROR(CheckNewName(source, "edge", some.type, names));
    for (const std::string& end : {some.source_type, some.destination_type}) {
      if (FindNodes(end) != nullptr) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          source, ": edges of type \"", absl::Utf8SafeCEscape(some.type),
          "\" join nodes of type \"", absl::Utf8SafeCEscape(end),
          "\", which it does not have"));
    }
  }
  if (!nodes.empty() && !edges.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(source, ": has no ", nodes.empty() ? "nodes" : "edges"));
}

void SourceGraph::TakeFeaturesAsBFloat16() {
  for (SourceNodes& some : nodes) {
    if (some.features == nullptr ||
        some.features->header().type !=
            store::ElementType{store::ElementType::Kind::kUint, 2}) {
      continue;
    }
    some.features->TakeAsBFloat16();
    const std::string& path = some.features->path();
    transforms.push_back(absl::StrCat(path.substr(path.find_last_of('/') + 1),
                                      ": uint16 taken as bfloat16"));
  }
}

absl::Status SourceGraph::CheckHeaders(bool in_place) const {
  for (const SourceNodes& some : nodes) {
    HEARTH_RETURN_IF_ERROR(CheckNodeHeaders(some, in_place));
  }
  for (const SourceEdges& some : edges) {
    if (some.edges != nullptr) continue;
    HEARTH_RETURN_IF_ERROR(
        CheckCscHeaders(*some.indptr, *some.indices, EndsOf(some)));
  }
  return absl::OkStatus();
}

uint64_t SourceGraph::BytesToImport(bool in_place) const {
  uint64_t bytes = kOverheadBytes;
  for (const SourceNodes& some : nodes) bytes += BytesOfNodes(some, in_place);
  for (const SourceEdges& some : edges) {
    bytes += BytesOfEdges(some, EndsOf(some));
  }
  return bytes;
}

}  // namespace hearth::ingest
