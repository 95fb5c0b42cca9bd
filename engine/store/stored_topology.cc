#include "engine/store/stored_topology.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "engine/io/joined_device.h"

namespace hearth::store {

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

}  // namespace hearth::store
