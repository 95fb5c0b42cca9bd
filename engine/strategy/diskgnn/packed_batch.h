#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_PACKED_BATCH_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_PACKED_BATCH_H_

#include <cstddef>

#include "absl/types/span.h"
#include "engine/io/row_reader.h"
#include "engine/strategy/buffer_pool.h"
#include "engine/strategy/diskgnn/layout/address_table.h"
#include "engine/strategy/sampled_batch.h"

namespace hearth::strategy {

/// A shard of a batch on its way through the stages of DiskGNN.
class PackedBatch final : public SampledBatch {
 public:
  using SampledBatch::SampledBatch;

  plan::AddressTable table;
  /// What was read: the pack and, behind it, rows of the disk cache.
  BufferPool::Lease read;
  /// Both are in `read`, as stored, in the order of the table.
  absl::Span<const std::byte> packed_rows;
  absl::Span<std::byte> disk_rows;
  /// Of all reads; its rows and payload are those of the disk cache.
  io::ReadTally tally;
  plan::LevelCounts counts;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_PACKED_BATCH_H_
