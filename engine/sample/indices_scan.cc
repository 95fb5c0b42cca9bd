#include "engine/sample/indices_scan.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/io/aligned_memory.h"

namespace hearth::sample {
namespace {

// Large enough for the disk's full speed.
constexpr uint64_t kChunkBytes = 8 << 20;
// The alignment of reads past the page cache.
constexpr uint64_t kPageBytes = 4096;

}  // namespace

absl::Status ScanIndices(
    io::FileSystem& files, const IndicesArray& array, std::stop_token stop,
    absl::FunctionRef<absl::Status(const IndicesChunk& chunk)> visit) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<io::ReadableFile> file,
                          files.OpenForScan(array.path));
  HEARTH_ASSIGN_OR_RETURN(io::AlignedMemory memory,
                          io::AlignedMemory::Allocate(kChunkBytes));
  const auto index_bytes = static_cast<uint64_t>(array.index_bytes);
  const uint64_t end =
      array.offset + static_cast<uint64_t>(array.count) * index_bytes;
  uint64_t at = array.offset;
  while (at < end) {
    if (stop.stop_requested()) {
      return absl::CancelledError(
          absl::StrCat(array.path, ": scan stopped on request"));
    }
    // The first chunk ends on a page, so that all others begin on one.
    const uint64_t length = std::min(kChunkBytes - at % kPageBytes, end - at);
    const absl::Span<std::byte> bytes = memory.bytes().subspan(0, length);
    HEARTH_RETURN_IF_ERROR(file->Read(at, bytes));
    HEARTH_RETURN_IF_ERROR(
        visit({.first = static_cast<int64_t>((at - array.offset) / index_bytes),
               .count = static_cast<int64_t>(length / index_bytes),
               .bytes = bytes}));
    at += length;
  }
  return absl::OkStatus();
}

}  // namespace hearth::sample
