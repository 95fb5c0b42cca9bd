#ifndef HEARTH_ENGINE_PLAN_PARTITION_CROSS_COUNTS_H_
#define HEARTH_ENGINE_PLAN_PARTITION_CROSS_COUNTS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "engine/plan/partition/node_labels.h"
#include "engine/plan/partition/partition_context.h"

namespace hearth::plan {

/// The edges of a whole partition.
struct CrossCounts {
  int64_t inner_edges = 0;
  int64_t cut_edges = 0;
  /// The checksum of the file.
  uint32_t crc32c = 0;
};

/// Counts each node's neighbors in other parts, by a scan of the topology, and
/// writes the counts, durably, to the file `path`.
absl::StatusOr<CrossCounts> WriteCrossCounts(const PartitionContext& context,
                                             const NodeLabels<uint16_t>& labels,
                                             const std::string& path);

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_PARTITION_CROSS_COUNTS_H_
