#ifndef HEARTH_ENGINE_PLAN_PARTITION_NAIVE_PARTITION_H_
#define HEARTH_ENGINE_PLAN_PARTITION_NAIVE_PARTITION_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "engine/plan/partition/partition_options.h"
#include "engine/store/list_graph.h"
#include "engine/store/topology.h"

/// Partitions for tests, made the plain way: everything in memory, every part
/// asked for every node, one node after the other.

namespace hearth::plan {

/// The part of each node, as WritePartition is to give it.
std::vector<uint16_t> NaivePartition(
    const store::ListGraph& graph,
    absl::Span<const store::NodeId> training_nodes,
    const PartitionOptions& options);

/// Neighbors of each node that are in other parts.
std::vector<uint32_t> NaiveCrossCounts(const store::ListGraph& graph,
                                       absl::Span<const uint16_t> parts);

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_PARTITION_NAIVE_PARTITION_H_
