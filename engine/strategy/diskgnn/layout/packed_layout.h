#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_PACKED_LAYOUT_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_PACKED_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/strategy/diskgnn/layout/segment_planner.h"
#include "engine/strategy/packing/file_range.h"

/// Where everything of a plan is: the rows of a batch (AddressTable) and the
/// ranges of its files (PackedLayout). Pure; formats are little-endian.

namespace hearth::strategy {

/// Rows of a batch, by the level that holds them.
struct LevelCounts {
  int64_t gpu = 0;
  int64_t cpu = 0;
  int64_t disk = 0;
  int64_t packed = 0;

  int64_t total() const { return gpu + cpu + disk + packed; }
  bool operator==(const LevelCounts&) const = default;
};

/// Rows of a batch in one level: input node positions[i] has its row at
/// rows[i].
struct LevelAddresses {
  /// Positions in MiniBatch::input_nodes.
  std::vector<int32_t> positions;
  /// Ascending: slots of a cache in memory, or row numbers in the disk cache's
  /// file.
  std::vector<int64_t> rows;

  bool operator==(const LevelAddresses&) const = default;
};

/// Where all rows of a batch are, so that training needs no look-up (DiskGNN,
/// section 6): each position is in exactly one of the four lists.
struct AddressTable {
  LevelAddresses gpu;
  LevelAddresses cpu;
  LevelAddresses disk;
  /// Row i of the batch's pack is for position packed[i].
  std::vector<int32_t> packed;

  LevelCounts counts() const;
  bool operator==(const AddressTable&) const = default;
};

/// Rows of each level of the whole layout: they determine the width of row
/// numbers in tables.
struct LevelSizes {
  int64_t gpu = 0;
  int64_t cpu = 0;
  int64_t disk = 0;
};

/// Bytes that EncodeTable writes; needs only the counts of the table.
uint64_t EncodedTableBytes(const LevelCounts& counts, const LevelSizes& sizes);

/// Writes `table` to `to` and returns its end. REQUIRES: EncodedTableBytes at
/// `to`; every row is below its level's size.
std::byte* EncodeTable(const AddressTable& table, const LevelSizes& sizes,
                       std::byte* to);

/// Replaces `table` by the one that EncodeTable wrote for a batch of `counts`.
/// DATA_LOSS for a length, position or row out of range. The caller checks the
/// checksum.
absl::Status DecodeTable(absl::Span<const std::byte> bytes,
                         const LevelCounts& counts, const LevelSizes& sizes,
                         AddressTable& table);

/// Bytes of the header before each graph sample, which names its plan and
/// batch.
inline constexpr uint64_t kChunkHeaderBytes = 64;

/// The chunk of one batch (DiskGNN, section 4): an entry of the index, as
/// stored.
struct Chunk {
  uint64_t offset = 0;
  /// Bytes of the graph sample, without the header.
  uint64_t sample_bytes = 0;
  LevelCounts counts;
  /// CRC32C of the chunk's three ranges.
  uint32_t sample_crc = 0;
  uint32_t table_crc = 0;
  uint32_t features_crc = 0;
  uint32_t zero = 0;
};
static_assert(sizeof(Chunk) == 64);

/// Where all bytes of a packed plan are, known exactly before the first one is
/// written. The files:
///
///   packs           the chunks: header and graph sample, address table, packed
///                   rows, each from a page on, so that each loader needs one
///                   sequential read
///   disk_cache      the rows of all segments' disk caches, one after the
///                   other, and zeros up to a whole page
///   disk_cache.crc  a CRC32C for each page of it (store::BlockChecksums)
///   gpu_cache       the rows that the memory levels hold, slot by slot
///   cpu_cache
///   index           this struct, written last: if it exists, the plan is whole
struct PackedLayout {
  /// The caller's number for everything that the plan depends on (PlanKey::id).
  uint64_t plan_id = 0;
  int64_t row_bytes = 0;
  int64_t segment_size = 0;
  /// Rows in gpu_cache, cpu_cache and disk_cache.
  LevelSizes rows;
  /// CRC32C of gpu_cache, cpu_cache and disk_cache.crc.
  uint32_t gpu_crc = 0;
  uint32_t cpu_crc = 0;
  uint32_t disk_checksums_crc = 0;
  /// One for each batch of the trace.
  std::vector<Chunk> chunks;
  /// Rows in the disk cache of each segment. Not stored: empty in a layout that
  /// was read.
  std::vector<int64_t> segment_rows = {};

  int64_t num_batches() const { return static_cast<int64_t>(chunks.size()); }

  FileRange SampleRange(int64_t batch) const;
  FileRange TableRange(int64_t batch) const;
  FileRange FeaturesRange(int64_t batch) const;

  /// Appends a chunk behind the last one.
  void AddChunk(uint64_t sample_bytes, const LevelCounts& counts);

  /// Computes the chunks' offsets once `rows` is final, on which the width of
  /// the tables depends.
  void PlaceChunks();

  /// Bytes of the files. disk_cache has whole pages.
  uint64_t packs_bytes() const;
  uint64_t disk_cache_bytes() const;
  uint64_t disk_checksums_bytes() const;
  uint64_t gpu_cache_bytes() const;
  uint64_t cpu_cache_bytes() const;
  uint64_t index_bytes() const;
  /// Bytes of all files of the layout.
  uint64_t total_bytes() const;
};

/// Bytes of the index before its chunks.
inline constexpr uint64_t kIndexHeaderBytes = 80;

/// Names of the files in the plan's folder.
inline constexpr char kPacksFile[] = "packs";
inline constexpr char kDiskCacheFile[] = "disk_cache";
inline constexpr char kDiskChecksumsFile[] = "disk_cache.crc";
inline constexpr char kGpuCacheFile[] = "gpu_cache";
inline constexpr char kCpuCacheFile[] = "cpu_cache";
inline constexpr char kIndexFile[] = "index";

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_PACKED_LAYOUT_H_
