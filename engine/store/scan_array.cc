#include "engine/store/scan_array.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/crc32c.h"
#include "engine/base/status_annotate.h"
#include "engine/base/status_macros.h"
#include "engine/io/aligned_memory.h"

namespace hearth::store {
namespace {

// A multiple of every block size; large enough for the disk's full speed.
constexpr uint64_t kChunkBytes = 8 << 20;

}  // namespace

absl::Status CheckBlock(const CheckedFile& from, const ArrayFile& array,
                        uint64_t begin, absl::Span<std::byte> block) {
  const uint64_t number = begin / array.crc_block_bytes;
  if (from.checksums.Matches(block, array.file_id, number)) {
    return absl::OkStatus();
  }
  return ReadBlockAgain(*from.file, array, number, from.checksums.of(number),
                        block);
}

std::string ArrayPath(const std::string& folder, const ArrayFile& array) {
  return array.in_place ? array.path : io::JoinPath(folder, array.path);
}

absl::StatusOr<CheckedFile> WithChecksums(
    io::FileSystem& files, const std::string& folder, const ArrayFile& array,
    std::unique_ptr<io::ReadableFile> file, const std::stop_token& stop) {
  HEARTH_ASSIGN_OR_RETURN(
      BlockChecksums checksums,
      BlockChecksums::Load(files, io::JoinPath(folder, array.crc_path),
                           NumBlocks(array.file_size_bytes - array.data_offset,
                                     array.crc_block_bytes),
                           array.crc_file_crc32c, stop));
  return CheckedFile{std::move(file), std::move(checksums)};
}

absl::Status ReadBlockAgain(io::ReadableFile& data, const ArrayFile& array,
                            uint64_t number, uint32_t crc32c,
                            absl::Span<std::byte> block) {
  const uint64_t begin = array.data_offset + number * array.crc_block_bytes;
  const std::string place =
      absl::StrCat(data.path(), ": block ", number, " (bytes ", begin, " .. ",
                   begin + block.size() - 1, ")");
  HEARTH_RETURN_IF_ERROR(Annotate(data.Read(begin, block), place));
  if (BlockCrc32c(block, array.file_id, number) == crc32c) {
    return absl::OkStatus();
  }
  return absl::DataLossError(
      absl::StrCat(place, " is damaged (its checksum does not match)"));
}

absl::Status ReadChecked(const CheckedFile& from, const ArrayFile& array,
                         uint64_t begin, absl::Span<std::byte> out) {
  HEARTH_RETURN_IF_ERROR(from.file->Read(array.data_offset + begin, out));
  const uint64_t end = begin + out.size();
  for (uint64_t at = begin; at < end; at += array.crc_block_bytes) {
    const uint64_t size = std::min<uint64_t>(array.crc_block_bytes, end - at);
    HEARTH_RETURN_IF_ERROR(
        CheckBlock(from, array, at, out.subspan(at - begin, size)));
  }
  return absl::OkStatus();
}

absl::Status ScanArray(
    io::FileSystem& files, const std::string& folder, const ArrayFile& array,
    const std::stop_token& stop,
    absl::FunctionRef<absl::Status(absl::Span<const std::byte>)> use) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> opened,
                          files.OpenForScan(ArrayPath(folder, array)));
  HEARTH_ASSIGN_OR_RETURN(
      const CheckedFile from,
      WithChecksums(files, folder, array, std::move(opened), stop));
  const uint64_t data_bytes = array.file_size_bytes - array.data_offset;
  HEARTH_ASSIGN_OR_RETURN(
      io::AlignedMemory memory,
      io::AlignedMemory::Allocate(std::min(kChunkBytes, data_bytes)));
  for (uint64_t begin = 0; begin < data_bytes; begin += kChunkBytes) {
    if (stop.stop_requested()) {
      return absl::CancelledError(
          absl::StrCat(from.file->path(), ": verifying was stopped"));
    }
    const absl::Span<std::byte> chunk =
        memory.bytes().first(std::min(kChunkBytes, data_bytes - begin));
    HEARTH_RETURN_IF_ERROR(ReadChecked(from, array, begin, chunk));
    HEARTH_RETURN_IF_ERROR(use(chunk));
  }
  return absl::OkStatus();
}

}  // namespace hearth::store
