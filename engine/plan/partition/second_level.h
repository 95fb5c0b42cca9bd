#ifndef HEARTH_ENGINE_PLAN_PARTITION_SECOND_LEVEL_H_
#define HEARTH_ENGINE_PLAN_PARTITION_SECOND_LEVEL_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/plan/partition/first_level.h"
#include "engine/plan/partition/list_scatter.h"
#include "engine/plan/partition/node_labels.h"
#include "engine/plan/partition/partition_context.h"
#include "engine/plan/partition/partition_index.h"

namespace hearth::plan {

/// The label of a node that is in no part yet.
inline constexpr uint16_t kNoPart = UINT16_MAX;

/// A part of the first level, to be parted once more.
struct SecondLevelInput {
  /// Its number, nodes and lists.
  int first = 0;
  FirstPart size;
  const ScatteredLists& lists;
  /// Edges within it, without self-loops.
  int64_t inner_edges = 0;
  /// The first-level part of each node of the graph.
  const NodeLabels<uint8_t>& first_labels;
};

/// Places its nodes into the parts that LevelSplit gives it, and writes their
/// numbers to `labels`, in which all of its nodes have kNoPart before. Returns
/// the sizes of these parts. For several inputs at a time, from different
/// threads.
absl::StatusOr<std::vector<PartEntry>> PlaceSecondLevel(
    const PartitionContext& context, const SecondLevelInput& input,
    NodeLabels<uint16_t>& labels);

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_PARTITION_SECOND_LEVEL_H_
