#ifndef HEARTH_ENGINE_STRATEGY_GIDS_ESTIMATES_H_
#define HEARTH_ENGINE_STRATEGY_GIDS_ESTIMATES_H_

#include <cstdint>
#include <stop_token>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/io/block_device.h"
#include "engine/io/read_plan.h"
#include "engine/io/read_probe.h"
#include "engine/io/read_queue.h"
#include "engine/strategy/gids/gids.h"
#include "engine/strategy/pass.h"

/// Figures of GIDS that are known before a pass: sizes of its parts, and the
/// speed of its disks. estimates.cc also implements the memory, budgets and
/// forecast of gids.h.

namespace hearth::strategy {

/// Sizes of the parts of GIDS, from the options and the sizes of batches. All
/// row counts are of the whole graph.

/// Rows of the constant buffer.
int64_t BufferedRows(const GidsOptions& options, const io::RowLayout& layout);

/// Lines of the window cache. `batches` has the size of each of the `shards`
/// shards of a batch.
int64_t WindowLines(const GidsOptions& options, const io::RowLayout& layout,
                    const BatchBound& batches, int64_t shards);

/// Speed of the disks that rows are read from. Each disk has an equal part of
/// the rows, so that the slowest one decides how long a batch takes: all disks
/// are assumed to be like it.
struct MeasuredDisks {
  io::ReadProfile slowest = {};
  int count = 1;
  /// Reads in flight, over all disks.
  int depth = 1;

  double peak_reads_per_second() const {
    return count * slowest.peak_reads_per_second;
  }
};

/// Measures the disk of each of `files` (at least one), one after the other: at
/// the depth that the options ask for, shared by the disks, or at the depth
/// that reaches the disk's peak. Errors as io::ProbeReads.
absl::StatusOr<MeasuredDisks> MeasureDisks(
    const GidsOptions& options, const io::RowLayout& layout,
    absl::Span<io::BlockDevice* const> files, io::ReadQueues& queues,
    const Clock& clock, const std::stop_token& stop);

/// Reads in flight at most; where rows are striped, over `data_disks` disks.
int MostDepth(const GidsOptions& options, int data_disks);

/// Reads to keep under way: as many as must overlap on all disks to come near
/// their peaks, and at least the depth.
int64_t TargetReads(const MeasuredDisks& disks);

/// Memory of batches that are being read or wait for assembly; further batches
/// join within it. Default: twice the largest batch's need, or once if the
/// caches hold all rows, so that each row is read only once.
uint64_t StagingBytes(const GidsOptions& options, const io::RowLayout& layout,
                      const BatchBound& batches, int64_t shards);

/// Bytes with which the largest batch counts in StagingBytes.
uint64_t LargestStagedBytes(const io::RowLayout& layout,
                            const BatchBound& batches);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_GIDS_ESTIMATES_H_
