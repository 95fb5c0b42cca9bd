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

namespace hearth::strategy {

/// The sizes of the parts of GIDS, as the options and the batches have them.

/// Rows of the constant buffer.
int64_t BufferedRows(const GidsOptions& options, const io::RowLayout& layout);

/// Lines of the window cache. `batches` is how large each of the `shards`
/// shards of a batch is.
int64_t WindowLines(const GidsOptions& options, const io::RowLayout& layout,
                    const BatchBound& batches, int64_t shards);

/// The disks that rows are read from. Each has as many of the rows as any
/// other, so that the slowest one decides how long a batch takes: all are taken
/// to be like it.
struct MeasuredDisks {
  io::ReadProfile slowest = {};
  int count = 1;
  /// Reads in flight, of all disks.
  int depth = 1;

  double peak_reads_per_second() const {
    return count * slowest.peak_reads_per_second;
  }
};

/// Measures the disk of each of `files`, of which there is one at least, one
/// after the other: for the reads that the options ask for, shared by the
/// disks, or those that reach each one's peak. Errors as io::ProbeReads.
absl::StatusOr<MeasuredDisks> MeasureDisks(
    const GidsOptions& options, const io::RowLayout& layout,
    absl::Span<io::BlockDevice* const> files, io::ReadQueues& queues,
    const Clock& clock, const std::stop_token& stop);

/// Reads in flight, at most, over `data_disks` disks where rows are striped.
int MostDepth(const GidsOptions& options, int data_disks);

/// Reads that are to be under way: as many as have to overlap on all disks, and
/// at least the depth.
int64_t TargetReads(const MeasuredDisks& disks);

/// Memory of the batches that are being read, or wait to be assembled, within
/// which others join them: by default twice what the largest needs, or once
/// where the caches have room for all rows, so that each is read only once.
uint64_t StagingBytes(const GidsOptions& options, const io::RowLayout& layout,
                      const BatchBound& batches, int64_t shards);

/// Bytes that the largest batch counts with in that memory.
uint64_t LargestStagedBytes(const io::RowLayout& layout,
                            const BatchBound& batches);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_GIDS_ESTIMATES_H_
