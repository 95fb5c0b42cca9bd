#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_REGION_WRITER_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_REGION_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/aligned_memory.h"
#include "engine/io/file_system.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"

namespace hearth::strategy {

/// Fills many regions of one file side by side, each from its beginning to its
/// end: what batched packing appends to (DiskGNN, section 5.2). All writes are
/// whole pages at page boundaries, so that they pass by the page cache: what is
/// left of a page waits in memory for the region's next piece; the end of a
/// region is filled up with zeros. Single-owner, but for its workers: each may
/// be another thread, where no two fill the same region at the same time.
///
/// Memory: kBytesPerRegion each, and kStagingBytes for each worker.
class RegionWriter {
 public:
  static constexpr uint64_t kBytesPerRegion = kPageBytes + 40;
  static constexpr uint64_t kStagingBytes = 1 << 20;

  /// `file` outlives the writer. RESOURCE_EXHAUSTED without memory.
  static absl::StatusOr<RegionWriter> Make(io::WritableFile& file,
                                           std::vector<FileRange> regions,
                                           int workers = 1);

  /// Where the next bytes of `region` are to be put: at most `bytes`, and no
  /// fewer unless there is less staging memory, or the region ends. Workers are
  /// counted from 0.
  absl::Span<std::byte> Begin(int64_t region, uint64_t bytes, int worker = 0);

  /// `count` bytes of what Begin gave that worker were put there.
  absl::Status Commit(int64_t region, uint64_t count, int worker = 0);

  /// CRC32C of a region's bytes so far.
  uint32_t crc(int64_t region) const { return states_[region].crc; }

  /// DATA_LOSS if a region has not been filled: what was to fill it is not
  /// what it was measured by.
  absl::Status CheckFull() const;

 private:
  struct State {
    uint64_t filled = 0;
    uint32_t crc = 0;
  };

  RegionWriter(io::WritableFile& file, std::vector<FileRange> regions,
               io::AlignedMemory carries, io::AlignedMemory staging);

  // The bytes of the region's last, not yet full page.
  std::byte* Carry(int64_t region) {
    return carries_.bytes().data() + static_cast<uint64_t>(region) * kPageBytes;
  }

  absl::Span<std::byte> Staging(int worker) {
    return staging_.bytes().subspan(
        static_cast<uint64_t>(worker) * kStagingBytes, kStagingBytes);
  }

  io::WritableFile* file_;
  std::vector<FileRange> regions_;
  std::vector<State> states_;
  io::AlignedMemory carries_;
  io::AlignedMemory staging_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_REGION_WRITER_H_
