#include "engine/store/array_parts.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status.h"

namespace hearth::store {

namespace {

constexpr uint64_t kPageBytes = 4096;
// Bytes of a read: enough for a disk's full speed, and a stop is seen soon.
constexpr uint64_t kReadBytes = 4 << 20;

uint64_t RoundUp(uint64_t bytes, uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

absl::StatusOr<ArrayParts> ArrayParts::Open(io::FileSystem& files,
                                            const std::string& folder,
                                            const ArrayFile& array,
                                            const std::stop_token& stop) {
  HEARTH_RETURN_IF_ERROR(CheckIsWhole(folder, array));
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> file,
                          files.OpenForScan(ArrayPath(folder, array)));
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file->Info());
  HEARTH_RETURN_IF_ERROR(
      CheckArraySize(file->path(), info.size_bytes, array.file_size_bytes));
  HEARTH_ASSIGN_OR_RETURN(
      CheckedFile from,
      WithChecksums(files, folder, array, std::move(file), stop));
  return ArrayParts(std::move(from), array);
}

uint64_t ArrayParts::MemoryBytes(const ArrayFile& array, uint64_t count) {
  // The blocks at both ends, and pages that begin before and end behind them.
  return RoundUp(count + 2 * uint64_t{array.crc_block_bytes}, kPageBytes) +
         2 * kPageBytes;
}

absl::StatusOr<ArrayParts::Part> ArrayParts::Read(
    uint64_t begin, uint64_t count, absl::Span<std::byte> memory,
    const std::stop_token& stop) const {
  if (count == 0) return Part{.begin = begin, .bytes = {}};
  if (begin > data_bytes() || count > data_bytes() - begin) {
    return absl::DataLossError(
        absl::StrCat(path(), ": ends at byte ", array_.file_size_bytes));
  }
  const uint64_t block = array_.crc_block_bytes;
  const uint64_t first = begin / block * block;
  const uint64_t end = std::min(RoundUp(begin + count, block), data_bytes());
  // The memory holds the file from `base` on.
  const uint64_t base = (array_.data_offset + first) / kPageBytes * kPageBytes;
  const uint64_t last = std::min(RoundUp(array_.data_offset + end, kPageBytes),
                                 array_.file_size_bytes);
  // The data up to here is checked.
  uint64_t checked = first;
  for (uint64_t at = base; at < last;) {
    if (stop.stop_requested()) {
      return absl::CancelledError(absl::StrCat(path(), ": stopped on request"));
    }
    const uint64_t size = std::min(kReadBytes, last - at);
    HEARTH_RETURN_IF_ERROR(
        from_.file->Read(at, memory.subspan(at - base, size)));
    at += size;
    while (checked < end) {
      const uint64_t length = std::min(block, end - checked);
      if (array_.data_offset + checked + length > at) break;
      HEARTH_RETURN_IF_ERROR(CheckBlock(
          from_, array_, checked,
          memory.subspan(array_.data_offset + checked - base, length)));
      checked += length;
    }
  }
  return Part{
      .begin = first,
      .bytes = memory.subspan(array_.data_offset + first - base, end - first)};
}

}  // namespace hearth::store
