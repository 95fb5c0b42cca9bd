#include "engine/strategy/gids/sizes.h"

#include <algorithm>
#include <cstddef>

#include "engine/base/status_macros.h"
#include "engine/sample/batch_shape.h"
#include "engine/strategy/gids/constant_buffer.h"
#include "engine/strategy/gids/gids_pass.h"

namespace hearth::strategy {
namespace {

// The part of the features, 1 in so many, that the constant buffer has (GIDS,
// section 4.1).
constexpr uint64_t kDefaultShare = 10;
// Batches whose rows the window cache has lines for.
constexpr int64_t kDefaultBatches = 4;

}  // namespace

int64_t BufferedRows(const GidsOptions& options, const io::RowLayout& layout) {
  if (!options.cpu_cache_bytes.has_value()) {
    return layout.num_rows / kDefaultShare;
  }
  return ConstantBuffer::Capacity(*options.cpu_cache_bytes, layout.row_bytes,
                                  layout.num_rows);
}

int64_t WindowLines(const GidsOptions& options, const io::RowLayout& layout,
                    const BatchBound& batches, int64_t shards) {
  const int64_t most = std::min<int64_t>(layout.num_rows, INT32_MAX);
  if (options.gpu_cache_bytes == 0 && !options.window_cache_bytes) {
    // Rows of the constant buffer take no lines.
    return std::min(
        {most, layout.num_rows - BufferedRows(options, layout),
         kDefaultBatches * shards * batches.WithMargin().num_inputs()});
  }
  const uint64_t bytes = options.gpu_cache_bytes > 0
                             ? options.gpu_cache_bytes
                             : *options.window_cache_bytes;
  return static_cast<int64_t>(std::min<uint64_t>(bytes / layout.row_bytes,
                                                 static_cast<uint64_t>(most)));
}

absl::StatusOr<MeasuredDisks> MeasureDisks(
    const GidsOptions& options, const io::RowLayout& layout,
    absl::Span<io::BlockDevice* const> files, io::ReadQueues& queues,
    const Clock& clock, const std::stop_token& stop) {
  MeasuredDisks disks = {.count = static_cast<int>(files.size())};
  const int depth_of_each =
      options.io_depth == 0 ? 0 : std::max(1, options.io_depth / disks.count);
  size_t depth = 1;
  for (io::BlockDevice* const file : files) {
    // A disk may be without rows, of very few.
    if (file->size_bytes() == 0) continue;
    HEARTH_ASSIGN_OR_RETURN(
        const io::ReadProfile profile,
        io::ProbeReads(*file, queues, clock, layout.row_bytes,
                       static_cast<size_t>(depth_of_each), stop));
    const double peak = profile.peak_reads_per_second;
    if (disks.slowest.peak_reads_per_second == 0 ||
        peak < disks.slowest.peak_reads_per_second) {
      disks.slowest = profile;
    }
    depth = std::max(depth, profile.depth);
  }
  disks.depth = options.io_depth > 0
                    ? options.io_depth
                    : std::min(static_cast<int>(io::kMaxReadDepth),
                               disks.count * static_cast<int>(depth));
  return disks;
}

int MostDepth(const GidsOptions& options, int data_disks) {
  if (options.io_depth > 0) return options.io_depth;
  const int disks = options.striped ? std::max(1, data_disks) : 1;
  return static_cast<int>(
      std::min(io::kMaxReadDepth, io::kMostProbedDepth * disks));
}

int64_t TargetReads(const MeasuredDisks& disks) {
  return std::max(
      io::OverlappingReads(disks.slowest, /*share=*/0.95, disks.count),
      static_cast<int64_t>(disks.depth));
}

uint64_t LargestStagedBytes(const io::RowLayout& layout,
                            const BatchBound& batches) {
  const sample::BatchShape largest = batches.WithMargin();
  return StagedBytes(largest.num_inputs(), largest.num_inputs(),
                     layout.row_bytes) +
         largest.MemoryBytes();
}

uint64_t StagingBytes(const GidsOptions& options, const io::RowLayout& layout,
                      const BatchBound& batches, int64_t shards) {
  if (options.staging_bytes > 0) return options.staging_bytes;
  const bool all_rows_fit = BufferedRows(options, layout) +
                                WindowLines(options, layout, batches, shards) >=
                            layout.num_rows;
  return std::max(GidsOptions::kLeastStaging,
                  (all_rows_fit ? 1 : 2) * LargestStagedBytes(layout, batches));
}

}  // namespace hearth::strategy
