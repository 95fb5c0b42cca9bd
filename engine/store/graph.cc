#include "engine/store/graph.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "engine/base/status.h"
#include "engine/io/block_device.h"
#include "engine/store/dataset.h"

namespace hearth::store {

namespace {

std::vector<int64_t> Counts(const Manifest& manifest) {
  std::vector<int64_t> counts;
  for (const NodeTypeEntry& type : manifest.node_types) {
    counts.push_back(type.num_nodes);
  }
  return counts;
}

// Index of the node type `name`. REQUIRES: there is such a type.
size_t TypeNamed(const Manifest& manifest, const std::string& name) {
  size_t type = 0;
  while (manifest.node_types[type].name != name) ++type;
  return type;
}

// Nodes between two checks of the stop token.
constexpr NodeId kStopEvery = 1 << 16;
// Bytes of an entry of a hash map, with its share of empty slots.
constexpr uint64_t kEntryBytes = 64;

}  // namespace

NodeSpace::NodeSpace(const Manifest& manifest) : NodeSpace(Counts(manifest)) {}

NodeSpace::NodeSpace(const std::vector<int64_t>& counts) : firsts_({0}) {
  for (const int64_t count : counts) firsts_.push_back(firsts_.back() + count);
}

TypeId NodeSpace::TypeOf(NodeId node) const {
  // Types without nodes begin where the next one does.
  const auto after = std::upper_bound(firsts_.begin() + 1, firsts_.end(), node);
  return static_cast<TypeId>(after - firsts_.begin() - 1);
}

Relation RelationAt(const Manifest& manifest, const NodeSpace& nodes,
                    size_t edge_type) {
  const EdgeTypeEntry& entry = manifest.edge_types[edge_type];
  const size_t source = TypeNamed(manifest, entry.source_type);
  const size_t destination = TypeNamed(manifest, entry.destination_type);
  return {.topology = {},
          .type = static_cast<TypeId>(edge_type),
          .name = entry.name,
          .first_destination = nodes.First(destination),
          .first_source = nodes.First(source),
          .num_sources = nodes.First(source + 1) - nodes.First(source)};
}

std::vector<std::vector<size_t>> RelationsInto(
    absl::Span<const Relation> relations, const NodeSpace& nodes) {
  std::vector<std::vector<size_t>> into(nodes.num_types());
  for (size_t i = 0; i < relations.size(); ++i) {
    // A type without nodes has no edges.
    if (relations[i].topology.num_nodes() == 0) continue;
    into[nodes.TypeOf(relations[i].first_destination)].push_back(i);
  }
  return into;
}

StoredTopology StoredTopology::Single(absl::Span<const int64_t> indptr,
                                      IndicesFile file) {
  const int64_t num_nodes = static_cast<int64_t>(indptr.size()) - 1;
  StoredTopology topology;
  topology.relations.push_back({.topology = {.indptr = indptr, .indices = {}},
                                .num_sources = num_nodes});
  topology.files.push_back(std::move(file));
  topology.nodes = NodeSpace({num_nodes});
  return topology;
}

void JoinIndices(std::vector<std::unique_ptr<io::BlockDevice>> devices,
                 StoredTopology& topology) {
  std::vector<io::RowTable> tables;
  int64_t num_edges = 0;
  uint32_t row_bytes = sizeof(int32_t);
  for (size_t type = 0; type < topology.files.size(); ++type) {
    IndicesFile& file = topology.files[type];
    file.first_edge = num_edges;
    tables.push_back({.first_row = num_edges,
                      .num_rows = topology.relations[type].topology.num_edges(),
                      .first_offset = io::JoinedPartOffset(type) + file.offset,
                      .row_bytes = static_cast<uint32_t>(file.index_bytes)});
    num_edges += tables.back().num_rows;
    row_bytes = std::max(row_bytes, tables.back().row_bytes);
  }
  for (io::RowTable& table : tables) {
    if (table.row_bytes == row_bytes) continue;
    table.convert = [](const std::byte* stored, std::byte* row) {
      int32_t narrow;
      std::memcpy(&narrow, stored, sizeof(narrow));
      const int64_t wide = narrow;
      std::memcpy(row, &wide, sizeof(wide));
    };
  }
  topology.indices = io::NewJoinedDevice(std::move(devices));
  topology.layout = {
      .row_bytes = row_bytes,
      .num_rows = num_edges,
      .tables =
          std::make_shared<const std::vector<io::RowTable>>(std::move(tables))};
}

absl::StatusOr<SelfLoops> SelfLoops::Count(const LoadedTopology& topology,
                                           const std::stop_token& stop) {
  const Topology& lists = topology.view();
  const auto num_nodes = static_cast<size_t>(lists.num_nodes());
  SelfLoops loops;
  const absl::Status status = std::visit(
      [&](const auto indices) -> absl::Status {
        for (NodeId node = 0; node < lists.num_nodes(); ++node) {
          if (node % kStopEvery == 0 && stop.stop_requested()) {
            return absl::CancelledError("stopped");
          }
          const int64_t count =
              std::count(indices.begin() + lists.indptr[node],
                         indices.begin() + lists.indptr[node + 1], node);
          if (count == 0) continue;
          loops.counts_.resize(num_nodes);
          loops.counts_[static_cast<size_t>(node)] =
              static_cast<uint8_t>(std::min<int64_t>(count, kMany));
          if (count >= kMany) loops.many_[node] = count;
        }
        return absl::OkStatus();
      },
      lists.indices);
  HEARTH_RETURN_IF_ERROR(status);
  HEARTH_RETURN_IF_ERROR(topology.status());
  return loops;
}

uint64_t SelfLoops::MemoryBytes(int64_t num_nodes, int64_t num_edges) {
  return static_cast<uint64_t>(num_nodes) +
         static_cast<uint64_t>(num_edges / kMany) * kEntryBytes;
}

}  // namespace hearth::store
