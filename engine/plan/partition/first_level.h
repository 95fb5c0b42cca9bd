#ifndef HEARTH_ENGINE_PLAN_PARTITION_FIRST_LEVEL_H_
#define HEARTH_ENGINE_PLAN_PARTITION_FIRST_LEVEL_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/plan/partition/node_labels.h"
#include "engine/plan/partition/partition_context.h"

namespace hearth::plan {

/// One part of the first level.
struct FirstPart {
  int64_t nodes = 0;
  int64_t training_nodes = 0;
};

/// The first level of a partition: the part of each node.
struct FirstLevel {
  NodeLabels<uint8_t> labels;
  std::vector<FirstPart> parts;
  /// Rounds that were made.
  int rounds = 0;
};

/// Places all nodes, in the order of their numbers, each by its in-neighbors;
/// edges that count are all edges, in alpha self-loops, too.
absl::StatusOr<FirstLevel> PlaceFirstLevel(const PartitionContext& context);

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_PARTITION_FIRST_LEVEL_H_
