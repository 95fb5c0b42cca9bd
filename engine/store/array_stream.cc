#include "engine/store/array_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

// The memory holds the file from base_ on, so that a place in it is as far
// from a page's beginning as in the file. A block that the last read has cut
// stays for the next one.

namespace hearth::store {
namespace {

constexpr uint64_t kPageBytes = 4096;

uint64_t PageOf(uint64_t place) { return place - place % kPageBytes; }

}  // namespace

absl::StatusOr<std::unique_ptr<ArrayStream>> ArrayStream::Open(
    io::FileSystem& files, const std::string& folder, const ArrayFile& array,
    const std::stop_token& stop, uint64_t buffer_bytes) {
  if (array.crc_block_bytes > buffer_bytes / 8) {
    return absl::FailedPreconditionError(
        absl::StrCat(array.path, ": has blocks of ", array.crc_block_bytes,
                     " bytes, too large to be read as a stream"));
  }
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> file,
                          files.OpenForScan(ArrayPath(folder, array)));
  HEARTH_ASSIGN_OR_RETURN(
      CheckedFile from,
      WithChecksums(files, folder, array, std::move(file), stop));
  HEARTH_ASSIGN_OR_RETURN(io::AlignedMemory memory,
                          io::AlignedMemory::Allocate(
                              std::min(buffer_bytes, array.file_size_bytes)));
  auto stream = std::unique_ptr<ArrayStream>(
      new ArrayStream(std::move(from), array, std::move(memory)));
  stream->base_ = stream->read_ = PageOf(array.data_offset);
  return stream;
}

absl::StatusOr<absl::Span<const std::byte>> ArrayStream::Next(uint64_t most) {
  if (given_ == checked_) HEARTH_RETURN_IF_ERROR(Refill());
  const uint64_t count = std::min(most, checked_ - given_);
  const absl::Span<const std::byte> bytes =
      memory_.bytes().subspan(given_ - base_, count);
  given_ += count;
  return bytes;
}

absl::Status ArrayStream::Refill() {
  const uint64_t end = array_.file_size_bytes;
  if (checked_ == end) return absl::OkStatus();
  const uint64_t base = PageOf(checked_);
  std::byte* const memory = memory_.bytes().data();
  std::memmove(memory, memory + (base - base_), read_ - base);
  base_ = base;
  const uint64_t last = std::min(end, base_ + memory_.bytes().size());
  HEARTH_RETURN_IF_ERROR(from_.file->Read(
      read_, memory_.bytes().subspan(read_ - base_, last - read_)));
  read_ = last;
  while (checked_ < end) {
    const uint64_t size =
        std::min<uint64_t>(array_.crc_block_bytes, end - checked_);
    if (size > read_ - checked_) break;
    HEARTH_RETURN_IF_ERROR(
        CheckBlock(from_, array_, checked_ - array_.data_offset,
                   memory_.bytes().subspan(checked_ - base_, size)));
    checked_ += size;
  }
  return absl::OkStatus();
}

}  // namespace hearth::store
