#include "engine/strategy/gids/sizes.h"

#include <algorithm>

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

int64_t TargetReads(const io::ReadProfile& disk) {
  return std::max(io::OverlappingReads(disk), static_cast<int64_t>(disk.depth));
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
