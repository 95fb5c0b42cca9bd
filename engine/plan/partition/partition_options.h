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

/// What partition to make, in which circumstances, and upper bounds of the disk
/// and memory that it takes.

namespace hearth::plan {

/// How the parts of neighbors are looked up.
enum class Membership {
  /// In a table with the part of each node.
  kExact,
  /// In a Bloom filter for each part, as in OUTRE (section 5.2), which
  /// sometimes finds a neighbor in a part that it is not in.
  kBloom,
};

/// Everything that a partition depends on, apart from the graph and its
/// training nodes.
struct PartitionOptions {
  static constexpr int kMaxParts = 65'535;
  static constexpr int kMaxRounds = 100;

  int parts = 1;
  /// Upper bound of the rounds that place each level's nodes: from the second
  /// round on, every node is taken out and placed again. A level ends early
  /// when 3 rounds have not increased the inner edges.
  int rounds = 1;
  Membership membership = Membership::kExact;

  friend bool operator==(const PartitionOptions&,
                         const PartitionOptions&) = default;
};

/// Sizes of the graph that is partitioned.
struct PartitionShape {
  int64_t nodes = 0;
  int64_t edges = 0;
  int64_t training_nodes = 0;
  /// Upper bound of the edge types that lead to nodes of one type.
  int64_t edge_types_into_node = 1;

  /// Shape of a dataset, with nodes and edges of all types.
  static PartitionShape Of(const store::Manifest& manifest,
                           int64_t training_nodes);
};

/// INVALID_ARGUMENT, naming the field, unless 1 <= parts <= min(kMaxParts,
/// nodes) and 1 <= rounds <= kMaxRounds; and for Bloom filters with several
/// rounds, because nodes cannot be taken out of them.
absl::Status CheckPartitionOptions(const PartitionOptions& options,
                                   int64_t nodes);

/// Default number of parts: about 10 per batch, at most 10,000 (OUTRE, section
/// 6.1), with 16 nodes or more each. REQUIRES: batch_size > 0.
int DefaultParts(int64_t training_nodes, int64_t batch_size, int64_t nodes);

/// Progress of a stage, in bytes that it reads or writes.
struct PartitionProgress {
  /// Name of the stage: "first level", "second level" and so on.
  absl::string_view stage;
  uint64_t done_bytes = 0;
  uint64_t total_bytes = 0;
};

/// Circumstances in which a partition is made; none of them changes the result.
struct PartitionRun {
  /// Folder of the plan; created when needed.
  std::string folder;
  int threads = 1;
  /// May be null. Called from several threads, one at a time.
  std::function<void(const PartitionProgress&)> progress = nullptr;
  std::stop_token stop = {};
  /// Must outlive the call.
  const Clock* clock = &Clock::Real();
};

/// Figures of a finished partition.
struct PartitionSummary {
  PartitionOptions options;
  int64_t nodes = 0;
  int64_t training_nodes = 0;
  /// All edges; edges within a part; edges from one part into another.
  /// Self-loops are neither inner nor cut edges.
  int64_t edges = 0;
  int64_t inner_edges = 0;
  int64_t cut_edges = 0;
  /// Smallest and largest numbers of nodes, and of training nodes, in one part.
  int64_t min_part_nodes = 0;
  int64_t max_part_nodes = 0;
  int64_t min_part_training_nodes = 0;
  int64_t max_part_training_nodes = 0;
  /// Rounds that the first level took.
  int rounds = 0;
  /// Seconds that it took to make the partition.
  double seconds = 0;
};

/// Upper bound of a partition's bytes on disk.
uint64_t PartitionBytes(const PartitionShape& shape,
                        const PartitionOptions& options);

/// Upper bound of the additional bytes on disk while it is made.
uint64_t PartitionScratchBytes(const PartitionShape& shape,
                               const PartitionOptions& options);

/// Upper bound of the memory while it is made: no more than 4.2 bytes per node
/// and 512 MiB. REQUIRES: threads > 0.
uint64_t PartitionMemory(const PartitionShape& shape,
                         const PartitionOptions& options, int threads);

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_PARTITION_PARTITION_OPTIONS_H_
