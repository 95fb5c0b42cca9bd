#ifndef HEARTH_ENGINE_PLAN_PARTITION_PARTITION_OPTIONS_H_
#define HEARTH_ENGINE_PLAN_PARTITION_PARTITION_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/base/clock.h"
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

/// How far a stage of the work is, in bytes that it reads or writes.
struct PartitionProgress {
  /// "first level", "second level", and so on.
  absl::string_view stage;
  uint64_t done_bytes = 0;
  uint64_t total_bytes = 0;
};

/// The circumstances in which a partition is made; none of them changes it.
struct PartitionRun {
  /// The plan's folder; made when needed.
  std::string folder;
  int threads = 1;
  /// May be absent. Called from several threads, one at a time.
  std::function<void(const PartitionProgress&)> progress = nullptr;
  std::stop_token stop = {};
  /// Outlives the call.
  const Clock* clock = &Clock::Real();
};

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

/// Bounds of a partition's memory and disk, told before it is made.

/// Bytes on disk of a partition, at most.
uint64_t PartitionBytes(const PartitionShape& shape,
                        const PartitionOptions& options);

/// Bytes on disk, at most, that making it takes beside that.
uint64_t PartitionScratchBytes(const PartitionShape& shape,
                               const PartitionOptions& options);

/// Bytes of memory that making it takes, at most: no more than 4.2 a node and
/// 512 MiB. REQUIRES: threads > 0.
uint64_t PartitionMemory(const PartitionShape& shape,
                         const PartitionOptions& options, int threads);

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_PARTITION_PARTITION_OPTIONS_H_
