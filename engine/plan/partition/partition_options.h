#ifndef HEARTH_ENGINE_PLAN_PARTITION_PARTITION_OPTIONS_H_
#define HEARTH_ENGINE_PLAN_PARTITION_PARTITION_OPTIONS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "engine/store/manifest.h"

namespace hearth::plan {

/// The means by which neighbors are found in parts.
enum class Membership {
  /// The part of each node, in a table.
  kExact,
  /// A Bloom filter for each part, as in OUTRE (section 5.2): now and then a
  /// neighbor is taken for a member of a part that it is not in.
  kBloom,
};

/// All that a partition depends on beside the graph and its training nodes.
struct PartitionOptions {
  static constexpr int kMaxParts = 65'535;
  static constexpr int kMaxRounds = 100;

  int parts = 1;
  /// Times that each level's nodes are placed, at most: from the second on,
  /// every node is taken out and placed again. A level ends early when 3 rounds
  /// have given no more inner edges.
  int rounds = 1;
  Membership membership = Membership::kExact;

  friend bool operator==(const PartitionOptions&,
                         const PartitionOptions&) = default;
};

/// The numbers that tell how large a partition is.
struct PartitionShape {
  int64_t nodes = 0;
  int64_t edges = 0;
  int64_t training_nodes = 0;
  /// Edge types that lead to nodes of one type, at most.
  int64_t edge_types_into_node = 1;

  /// That of a dataset: nodes and edges of all types.
  static PartitionShape Of(const store::Manifest& manifest,
                           int64_t training_nodes);
};

/// INVALID_ARGUMENT, naming the field, for other parts than 1 .. the smaller of
/// kMaxParts and `nodes`, for other rounds than 1 .. kMaxRounds, and for Bloom
/// filters with several rounds, as nothing can be taken out of them.
absl::Status CheckPartitionOptions(const PartitionOptions& options,
                                   int64_t nodes);

/// The parts to make unless told: about 10 times as many as there are batches,
/// no more than 10,000 (OUTRE, section 6.1), of 16 nodes or more.
/// REQUIRES: batch_size > 0.
int DefaultParts(int64_t training_nodes, int64_t batch_size, int64_t nodes);

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_PARTITION_PARTITION_OPTIONS_H_
