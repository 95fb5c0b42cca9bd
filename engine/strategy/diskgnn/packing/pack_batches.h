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
#include "engine/strategy/packing/sample_spool.h"

/// Writes a plan (PackBatches) within a memory limit (PlanPackMemory).

namespace hearth::strategy {

/// The data that a plan is packed from. All of it outlives the packing.
struct PackInput {
  plan::AccessTrace* trace = nullptr;
  const MemoryLevels* levels = nullptr;
  EncodedSamples* samples = nullptr;
  /// The feature file, opened for a scan.
  io::ReadableFile* features = nullptr;
  /// The place of the rows in the feature file.
  io::RowLayout rows;
};

/// A run of a plan's segments that is packed by itself, from its own batches
/// alone: batch i of its input is batch first_batch + i of the plan. Parts are
/// joined by JoinPacks.
struct PackPart {
  int64_t first_segment = 0;
  int64_t first_batch = 0;
  /// Rows of each level that are written, and the plan's rows before them. Of
  /// the memory levels, which belong to no batch, parts take any share.
  LevelSizes first = {};
  LevelSizes rows = {};
};

/// The layout of a part: its chunks of `layout`, from 0 on, and the rows of the
/// whole plan, on which tables depend.
PackedLayout LayoutOfPart(const PackPart& part, const PackedLayout& layout,
                          int64_t num_batches);

/// The progress of packing, for people.
struct PackProgress {
  /// "planning", "scanning" or "ordering", in this order.
  absl::string_view stage;
  uint64_t done_bytes = 0;
  uint64_t total_bytes = 0;
};

struct PackOptions {
  /// The folder of the plan; created if it does not exist.
  std::string folder;
  /// The caller's number for everything that the plan depends on; written to
  /// the index and to every chunk.
  uint64_t plan_id = 0;
  /// Limit of all memory but that of the input. Default: 1 GiB.
  uint64_t memory_limit_bytes = uint64_t{1} << 30;
  /// Called on the caller's thread, every few dozen MiB. May be empty.
  std::function<void(const PackProgress&)> progress;
  /// Threads that work at the same time, the caller's included; one more reads
  /// the features.
  int threads = 1;
  std::stop_token stop;
  /// As StrategyResources::on_scan.
  std::function<void(double bytes_per_second)> on_scan = nullptr;
  /// Measures waiting times. Outlives the packing.
  const Clock* clock = &Clock::Real();
};

/// Everything that a stage of packing works with. All of it outlives the stage.
struct PackContext {
  io::FileSystem& files;
  const PackInput& input;
  /// Of the whole plan.
  const Segmentation& segmentation;
  const PackPart& part;
  const PackOptions& options;

  int64_t num_batches() const { return input.trace->num_batches(); }
  /// Segments of the part.
  int64_t num_segments() const {
    return (num_batches() + segmentation.segment_size - 1) /
           segmentation.segment_size;
  }
  /// Segment `index` of the part, whose batches are those of the input.
  Segment SegmentOfPart(int64_t index) const;
};

/// How batched packing divides its memory, and how many bytes it writes in
/// addition to the plan.
struct PackMemory {
  /// Rows of a partition, the unit in which the feature file is read.
  int64_t partition_nodes = 0;
  int64_t num_partitions = 0;
  /// Threads that distribute the rows of a partition, each with buffers of its
  /// own.
  int workers = 1;
  /// Bytes of a block of the dispatch spool.
  uint64_t block_bytes = 0;
  /// Memory of the scan at most: its partitions and all buffers.
  uint64_t scan_bytes = 0;
  /// Memory of the planning stage at most, without the memory levels and the
  /// trace.
  uint64_t planning_bytes = 0;
  /// Bytes of files that exist only while the plan is packed.
  uint64_t scratch_disk_bytes = 0;
};

/// Divides `limit_bytes` for packing the rows of a graph of `num_nodes` into a
/// plan of `layout`, by up to `threads`; by fewer if their buffers would take
/// much of the limit. RESOURCE_EXHAUSTED, naming the least sufficient limit, if
/// the limit is too small; INVALID_ARGUMENT for rows of more than kMaxRowBytes.
absl::StatusOr<PackMemory> PlanPackMemory(const PackedLayout& layout,
                                          int64_t num_nodes,
                                          uint64_t limit_bytes,
                                          int threads = 1);

/// Sizes from which the memory of packing is bounded before there is a layout.
struct PackBound {
  int64_t num_nodes = 0;
  int64_t row_bytes = 0;
  int64_t num_batches = 0;
  /// Input nodes of the largest batch.
  int64_t batch_nodes = 0;
  /// Memory of the largest batch's sample.
  uint64_t sample_bytes = 0;
};

/// A limit that suffices PlanPackMemory for any layout of such batches.
uint64_t EnoughPackMemory(const PackBound& bound);

/// The limit above which packing by `threads` threads is no faster, if an
/// eighth of the batches' rows are packed.
uint64_t UsefulPackMemory(const PackBound& bound, int threads);

/// Bytes of the longest rows that can be packed.
inline constexpr int64_t kMaxRowBytes = 512 << 10;

/// Writes a whole plan by batched packing (DiskGNN, section 5.2): reads the
/// feature file once, from beginning to end, in partitions that fit in memory,
/// and appends the rows of each to the packs of all batches, to the segments of
/// the disk cache and to the images of the memory levels. `layout` is
/// MeasureLayout of `segmentation` and the same input; it is returned with
/// checksums. The same input gives the same bytes, whatever the memory limit
/// and the threads.
///
/// Too little memory or disk is RESOURCE_EXHAUSTED with the numbers, before
/// anything is written. Later errors remove everything of the plan; after a
/// kill, a second call starts over. FAILED_PRECONDITION if the input differs
/// from what was measured; DATA_LOSS if the feature file is too short;
/// CANCELLED, within a few MiB, when a stop is requested.
absl::StatusOr<PackedLayout> PackBatches(io::FileSystem& files,
                                         const PackInput& input,
                                         const Segmentation& segmentation,
                                         PackedLayout layout,
                                         const PackOptions& options);

/// The same for a part of a plan, whose segments are those of `segmentation`:
/// its files are of the part, and so is `layout` (LayoutOfPart). Its batches
/// are whole segments.
absl::StatusOr<PackedLayout> PackBatches(io::FileSystem& files,
                                         const PackInput& input,
                                         const Segmentation& segmentation,
                                         const PackPart& part,
                                         PackedLayout layout,
                                         const PackOptions& options);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_PACK_BATCHES_H_
