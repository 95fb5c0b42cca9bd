#ifndef HEARTH_ENGINE_STRATEGY_PACKING_REGION_WRITER_H_
#define HEARTH_ENGINE_STRATEGY_PACKING_REGION_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/aligned_memory.h"
#include "engine/io/file_system.h"
#include "engine/strategy/packing/file_range.h"

/// Appending to many regions of a file (RegionWriter).

namespace hearth::strategy {

/// Appends to many regions of one file at a time, as batched packing does
/// (DiskGNN, section 5.2). All writes are whole blocks of pages at page
/// boundaries, so that they bypass the page cache: a partial block waits in
/// memory for the region's next piece; the last page of a region is filled up
/// with zeros. Single-owner, except that each worker may be another thread, as
/// long as no two append to the same region at the same time.
///
/// Memory: BytesPerRegion for each region, kStagingBytes for each worker.
class RegionWriter {
 public:
  static constexpr uint64_t kStagingBytes = 1 << 20;
  /// Bytes of a block, at most.
  static constexpr uint64_t kMostBlockBytes = kStagingBytes / 4;

  static constexpr uint64_t BytesPerRegion(uint64_t block_bytes = kPageBytes) {
    return block_bytes + 40;
  }

  /// `block_bytes`: whole pages, at most kMostBlockBytes; larger blocks take
  /// fewer writes. `file` outlives the writer. RESOURCE_EXHAUSTED without
  /// memory.
  static absl::StatusOr<RegionWriter> Make(io::WritableFile& file,
                                           std::vector<FileRange> regions,
                                           int workers = 1,
                                           uint64_t block_bytes = kPageBytes);

  /// Memory for the next bytes of `region`: `bytes`, or fewer if there is less
  /// staging memory or the region ends. Workers are numbered from 0.
  absl::Span<std::byte> Begin(int64_t region, uint64_t bytes, int worker = 0);

  /// Appends the first `count` bytes of the memory from the worker's last
  /// Begin.
  absl::Status Commit(int64_t region, uint64_t count, int worker = 0);

  /// CRC32C of the region's bytes so far.
  uint32_t crc(int64_t region) const { return states_[region].crc; }

  /// DATA_LOSS unless all regions are full: otherwise the input was not what
  /// was measured.
  absl::Status CheckFull() const;

 private:
  struct State {
    uint64_t filled = 0;
    uint32_t crc = 0;
  };

  RegionWriter(io::WritableFile& file, std::vector<FileRange> regions,
               uint64_t block_bytes, int workers, io::AlignedMemory carries,
               io::AlignedMemory staging);

  // The region's last, partial block.
  std::byte* Carry(int64_t region) {
    return carries_.bytes().data() +
           static_cast<uint64_t>(region) * block_bytes_;
  }

  absl::Span<std::byte> Staging(int worker) {
    return staging_.bytes().subspan(
        static_cast<uint64_t>(worker) * kStagingBytes, kStagingBytes);
  }

  io::WritableFile* file_;
  std::vector<FileRange> regions_;
  std::vector<State> states_;
  uint64_t block_bytes_;
  // [workers] where the memory of the last Begin is: in Carry, or in Staging.
  std::vector<std::byte*> begun_;
  io::AlignedMemory carries_;
  io::AlignedMemory staging_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_PACKING_REGION_WRITER_H_
