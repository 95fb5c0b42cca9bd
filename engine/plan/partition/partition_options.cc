#include "engine/plan/partition/partition_options.h"

#include <algorithm>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/io/whole_file.h"
#include "engine/plan/partition/fennel.h"
#include "engine/plan/partition/list_scatter.h"
#include "engine/plan/partition/node_arrays.h"
#include "engine/plan/partition/partition.h"
#include "engine/plan/partition/partition_context.h"
#include "engine/plan/partition/topology_scan.h"
#include "engine/store/graph.h"
#include "engine/store/topology.h"

namespace hearth::plan {

PartitionShape PartitionShape::Of(const store::Manifest& manifest,
                                  int64_t training_nodes) {
  PartitionShape shape = {.nodes = store::NodeSpace(manifest).num_nodes(),
                          .training_nodes = training_nodes};
  std::map<std::string, int64_t> into;
  for (const store::EdgeTypeEntry& edges : manifest.edge_types) {
    shape.edges += edges.num_edges;
    shape.edge_types_into_node =
        std::max(shape.edge_types_into_node, ++into[edges.destination_type]);
  }
  return shape;
}

absl::Status CheckPartitionOptions(const PartitionOptions& options,
                                   int64_t nodes) {
  const int64_t most = std::min<int64_t>(PartitionOptions::kMaxParts, nodes);
  if (options.parts < 1 || options.parts > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("parts: ", options.parts, " is not between 1 and ", most,
                     most == nodes ? ", the number of nodes" : ""));
  }
  if (options.rounds < 1 || options.rounds > PartitionOptions::kMaxRounds) {
    return absl::InvalidArgumentError(
        absl::StrCat("rounds: ", options.rounds, " is not between 1 and ",
                     PartitionOptions::kMaxRounds));
  }
  if (options.rounds > 1 && options.membership == Membership::kBloom) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rounds: ", options.rounds,
        " cannot be made with Bloom filters, which forget no node; 1 can"));
  }
  return absl::OkStatus();
}

int DefaultParts(int64_t training_nodes, int64_t batch_size, int64_t nodes) {
  const int64_t most =
      std::max<int64_t>(1, std::min<int64_t>(10'000, nodes / 16));
  // Whole batches and a rest are counted apart, so that no product overflows.
  const int64_t batches = std::min(training_nodes / batch_size, most);
  return static_cast<int>(std::clamp<int64_t>(
      10 * batches + 10 * (training_nodes % batch_size) / batch_size, 1, most));
}

namespace {

// Filters of the first level, later those of as many first-level parts as there
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
  // Items in flight, each with its window and counts.
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
