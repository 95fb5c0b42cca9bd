#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_ADDRESS_TABLE_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_ADDRESS_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/strategy/diskgnn/layout/memory_levels.h"

namespace hearth::strategy {

/// How many rows of a batch each level holds.
struct LevelCounts {
  int64_t gpu = 0;
  int64_t cpu = 0;
  int64_t disk = 0;
  int64_t packed = 0;

  int64_t total() const { return gpu + cpu + disk + packed; }
};

/// Input node positions[i] of a batch has its row at rows[i] of a level.
struct LevelAddresses {
  /// Positions in MiniBatch::input_nodes.
  std::vector<int32_t> positions;
  /// Ascending: slots of a cache in memory, or rows of the disk cache's file.
  std::vector<int64_t> rows;

  bool operator==(const LevelAddresses&) const = default;
};

/// Where all rows of a batch are, so that training looks nothing up (DiskGNN,
/// section 6): each position is in exactly one of the four lists.
struct AddressTable {
  LevelAddresses gpu;
  LevelAddresses cpu;
  LevelAddresses disk;
  /// Row i of the batch's pack belongs to position packed[i].
  std::vector<int32_t> packed;

  LevelCounts counts() const;
  bool operator==(const AddressTable&) const = default;
};

/// Rows that a level of the whole layout has: what decides the width of the
/// numbers in a table.
struct LevelSizes {
  int64_t gpu = 0;
  int64_t cpu = 0;
  int64_t disk = 0;
};

/// Bytes that EncodeTable will take, known before there is a table.
uint64_t EncodedTableBytes(const LevelCounts& counts, const LevelSizes& sizes);

/// Writes `table` and returns where it ends. REQUIRES: EncodedTableBytes at
/// `to`; every row is one of `sizes`.
std::byte* EncodeTable(const AddressTable& table, const LevelSizes& sizes,
                       std::byte* to);

/// Replaces `table` by what EncodeTable wrote for a batch of `counts`.
/// DATA_LOSS if that cannot be: a length, a position or a row out of range. The
/// checksum is the caller's to check.
absl::Status DecodeTable(absl::Span<const std::byte> bytes,
                         const LevelCounts& counts, const LevelSizes& sizes,
                         AddressTable& table);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_ADDRESS_TABLE_H_
