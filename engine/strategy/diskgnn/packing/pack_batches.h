#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_PACK_BATCHES_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_PACK_BATCHES_H_

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/io/read_plan.h"
#include "engine/plan/access_trace.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"
#include "engine/strategy/diskgnn/layout/segment_planner.h"
#include "engine/strategy/diskgnn/packing/sample_spool.h"

namespace hearth::strategy {

/// The data that a plan is packed from. All outlive the packing.
struct PackInput {
  plan::AccessTrace* trace = nullptr;
  const MemoryLevels* levels = nullptr;
  EncodedSamples* samples = nullptr;
  /// Opened for a scan.
  io::ReadableFile* features = nullptr;
  /// Where the rows are in it.
  io::RowLayout rows;
};

/// How far packing is, for people.
struct PackProgress {
  /// "planning", "scanning" or "ordering", in this order.
  absl::string_view stage;
  uint64_t done_bytes = 0;
  uint64_t total_bytes = 0;
};

struct PackOptions {
  /// The folder of the plan; made if it is not there.
  std::string folder;
  /// The caller's number for what the plan depends on: it is in the index and
  /// in every chunk.
  uint64_t plan_id = 0;
  /// For all memory but that of the input. Default: 1 GiB.
  uint64_t memory_limit_bytes = uint64_t{1} << 30;
  /// Called on the caller's thread, every few dozen MiB. May be empty.
  std::function<void(const PackProgress&)> progress;
  /// That work at the same time, the caller's included; the features are read
  /// by one more.
  int threads = 1;
  std::stop_token stop;
  /// For waiting times alone. Outlives the packing.
  const Clock* clock = &Clock::Real();
};

/// Everything that a stage of packing works with; all outlive it.
struct PackContext {
  io::FileSystem& files;
  const PackInput& input;
  const Segmentation& segmentation;
  const PackOptions& options;
};

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

/// Writes a whole plan, batched (DiskGNN, section 5.2): the feature file is
/// read once, from one end to the other, in partitions that fit in memory, and
/// the rows of each are appended to the packs of all batches, to the segments
/// of the disk cache and to the images of the memory levels. `layout` is what
/// MeasureLayout gave for `segmentation` and the same input; it comes back with
/// checksums. The same input gives the same bytes, whatever the memory limit.
///
/// The memory and the disk that it needs are known first: RESOURCE_EXHAUSTED
/// with the numbers, and nothing is written. Later errors leave nothing of the
/// plan; after a kill, a second call begins anew. FAILED_PRECONDITION if the
/// input is not what was measured; DATA_LOSS if the feature file is too short;
/// CANCELLED, within a few MiB, when a stop is requested.
absl::StatusOr<PackedLayout> PackBatches(io::FileSystem& files,
                                         const PackInput& input,
                                         const Segmentation& segmentation,
                                         PackedLayout layout,
                                         const PackOptions& options);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_PACK_BATCHES_H_
