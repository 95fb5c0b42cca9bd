#include "engine/plan/partition/partition_bounds.h"

#include <algorithm>

#include "engine/io/stream_writer.h"
#include "engine/plan/partition/bloom_filters.h"
#include "engine/plan/partition/fennel.h"
#include "engine/plan/partition/level_split.h"
#include "engine/plan/partition/list_scatter.h"
#include "engine/plan/partition/list_window.h"
#include "engine/plan/partition/node_ids.h"
#include "engine/plan/partition/part_lists_file.h"
#include "engine/plan/partition/partition_context.h"
#include "engine/plan/partition/partition_index.h"
#include "engine/plan/partition/topology_reader.h"
#include "engine/plan/partition/topology_scan.h"
#include "engine/store/topology.h"

namespace hearth::plan {
namespace {

// Filters of the first level, and later those of as many parts of it as there
// are threads.
uint64_t FilterBytes(const PartitionShape& shape,
                     const PartitionOptions& options, int threads) {
  if (options.membership != Membership::kBloom) return 0;
  const LevelSplit split(options.parts);
  const int first = split.first_parts();
  const uint64_t second = BloomFilters::Bytes(PartCapacity(shape.nodes, first),
                                              split.second_parts(0));
  return std::max(BloomFilters::Bytes(shape.nodes, first),
                  second * static_cast<uint64_t>(std::min(threads, first)));
}

uint64_t WindowBytes(const PartitionShape& shape) {
  const auto lists = static_cast<uint64_t>(shape.nodes);
  const auto neighbors = static_cast<uint64_t>(shape.edges);
  return std::min(ListWindow::kMaxBytes,
                  lists * (sizeof(store::NodeId) + sizeof(uint32_t)) +
                      neighbors * sizeof(store::NodeId));
}

}  // namespace

uint64_t PartitionBytes(const PartitionShape& shape,
                        const PartitionOptions& options) {
  const int id_bytes = IdBytes(shape.nodes);
  const LevelSplit split(options.parts);
  const auto nodes = static_cast<uint64_t>(shape.nodes);
  // Each area begins at a page.
  const uint64_t lists =
      AreaBytes(shape.nodes, shape.edges, options.parts, id_bytes) +
      static_cast<uint64_t>(split.first_parts()) * AreaBytes(0, 0, 1, id_bytes);
  return lists + nodes * (sizeof(uint16_t) + sizeof(uint32_t)) +
         static_cast<uint64_t>(shape.training_nodes) *
             static_cast<uint64_t>(id_bytes) +
         PartitionIndexBytes(options.parts);
}

uint64_t PartitionScratchBytes(const PartitionShape& shape,
                               const PartitionOptions& options) {
  return ListScatter::FileBytes(shape.nodes, shape.edges,
                                LevelSplit(options.parts).first_parts(),
                                IdBytes(shape.nodes));
}

uint64_t PartitionMemory(const PartitionShape& shape,
                         const PartitionOptions& options, int threads) {
  threads = std::clamp(threads, 1, PartitionContext::kMaxThreads);
  const auto nodes = static_cast<uint64_t>(shape.nodes);
  const LevelSplit split(options.parts);
  const uint64_t labels = nodes * (sizeof(uint8_t) + sizeof(uint16_t));
  const uint64_t window = WindowBytes(shape);
  // Each with what is counted of it.
  const uint64_t items =
      static_cast<uint64_t>(ItemsInFlight(threads)) * 3 * window;
  const uint64_t scan =
      TopologyReader::MemoryBytes(shape.edge_types_into_node) + items +
      ListScatter::MemoryBytes(split.first_parts()) +
      io::StreamWriter::kBufferBytes;
  const uint64_t areas =
      static_cast<uint64_t>(threads) *
      (std::min(AreaWindowBytes(threads), PartitionBytes(shape, options)) +
       kScatterChunkBytes + window);
  return labels + nodes / 8 + 1 + FilterBytes(shape, options, threads) +
         std::max(scan, areas);
}

}  // namespace hearth::plan
