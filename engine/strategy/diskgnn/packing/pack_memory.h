#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_PACK_MEMORY_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_PACK_MEMORY_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"

namespace hearth::strategy {

/// How batched packing shares its memory, and what it writes besides the plan.
struct PackMemory {
  /// The feature file is read in partitions of as many rows.
  int64_t partition_nodes = 0;
  int64_t num_partitions = 0;
  /// Threads that distribute a partition's rows, each with buffers of its own.
  int workers = 1;
  /// Bytes of a block of the dispatch spool.
  uint64_t block_bytes = 0;
  /// Memory that the scan holds at most: its partitions and all buffers.
  uint64_t scan_bytes = 0;
  /// Memory that the planning before it holds at most, without the memory
  /// levels and the trace.
  uint64_t planning_bytes = 0;
  /// Files that are there only while the plan is packed.
  uint64_t scratch_disk_bytes = 0;
};

/// Rows of a graph of `num_nodes` in a plan of `layout`, within `limit_bytes`,
/// by up to `threads`: fewer where their buffers would take much of the limit.
/// RESOURCE_EXHAUSTED, naming the least limit that would do, if that is too
/// little; INVALID_ARGUMENT for rows of more than kMaxRowBytes.
absl::StatusOr<PackMemory> PlanPackMemory(const PackedLayout& layout,
                                          int64_t num_nodes,
                                          uint64_t limit_bytes,
                                          int threads = 1);

/// The facts that bound what packing needs before there is a layout.
struct PackBound {
  int64_t num_nodes = 0;
  int64_t row_bytes = 0;
  int64_t num_batches = 0;
  /// Nodes of the largest batch.
  int64_t batch_nodes = 0;
  /// Memory of its sample.
  uint64_t sample_bytes = 0;
};

/// A limit that PlanPackMemory finds enough for any layout of such batches.
uint64_t EnoughPackMemory(const PackBound& bound);

/// The limit above which packing by so many threads is no faster, where an
/// eighth of the batches' rows are packed.
uint64_t UsefulPackMemory(const PackBound& bound, int threads);

/// The longest rows that can be packed.
inline constexpr int64_t kMaxRowBytes = 512 << 10;

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_PACK_MEMORY_H_
