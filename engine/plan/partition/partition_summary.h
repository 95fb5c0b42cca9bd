#ifndef HEARTH_ENGINE_PLAN_PARTITION_PARTITION_SUMMARY_H_
#define HEARTH_ENGINE_PLAN_PARTITION_PARTITION_SUMMARY_H_

#include <cstdint>

#include "engine/plan/partition/partition_options.h"

namespace hearth::plan {

/// A partition in numbers.
struct PartitionSummary {
  PartitionOptions options;
  int64_t nodes = 0;
  int64_t training_nodes = 0;
  /// Edges in all: those within a part, those from one part into another, and
  /// self-loops, which count as neither.
  int64_t edges = 0;
  int64_t inner_edges = 0;
  int64_t cut_edges = 0;
  /// Nodes, and training nodes, of the parts that have the fewest and the most.
  int64_t min_part_nodes = 0;
  int64_t max_part_nodes = 0;
  int64_t min_part_training_nodes = 0;
  int64_t max_part_training_nodes = 0;
  /// Rounds of the first level that were made.
  int rounds = 0;
  /// Time that making it took.
  double seconds = 0;
};

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_PARTITION_PARTITION_SUMMARY_H_
