#include "engine/store/verified_file.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/crc32c.h"
#include "engine/base/status_macros.h"
#include "engine/store/block_checksums.h"
#include "engine/store/scan_array.h"

namespace hearth::store {
namespace {

constexpr uint64_t kChunkBytes = 256 << 10;
// Checksums that are read at a time.
constexpr uint64_t kMaxBlocks = 4096;

absl::Span<std::byte> AsBytes(std::vector<uint32_t>& values) {
  return {reinterpret_cast<std::byte*>(values.data()),
          values.size() * sizeof(uint32_t)};
}

absl::StatusOr<uint32_t> ChecksumOf(io::ReadableFile& file, uint64_t bytes,
                                    const std::stop_token& stop) {
  std::vector<std::byte> chunk;
  uint32_t crc = 0;
  for (uint64_t at = 0; at < bytes; at += chunk.size()) {
    if (stop.stop_requested()) {
      return absl::CancelledError(
          absl::StrCat(file.path(), ": verifying was stopped"));
    }
    chunk.resize(std::min(kChunkBytes, bytes - at));
    HEARTH_RETURN_IF_ERROR(file.Read(at, absl::MakeSpan(chunk)));
    crc = Crc32c(chunk, crc);
  }
  return crc;
}

/// DATA_LOSS if the file's first bytes, `what` of it, do not have that
/// checksum at the second attempt either.
absl::Status CheckBeginning(io::ReadableFile& file, uint64_t bytes,
                            uint32_t crc32c, absl::string_view what,
                            const std::stop_token& stop) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    HEARTH_ASSIGN_OR_RETURN(const uint32_t crc, ChecksumOf(file, bytes, stop));
    if (crc == crc32c) return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat(
      file.path(), ": ", what, " is damaged (its checksum does not match)"));
}

class VerifiedFile final : public io::ReadableFile {
 public:
  VerifiedFile(ArrayFile array, std::unique_ptr<io::ReadableFile> data,
               std::unique_ptr<io::ReadableFile> checksums)
      : array_(std::move(array)),
        data_(std::move(data)),
        checksums_(std::move(checksums)) {}

  absl::Status CheckHeaderAndChecksums(const std::stop_token& stop) {
    const uint64_t data_bytes = array_.file_size_bytes - array_.data_offset;
    HEARTH_RETURN_IF_ERROR(CheckBeginning(
        *checksums_,
        NumBlocks(data_bytes, array_.crc_block_bytes) * sizeof(uint32_t),
        array_.crc_file_crc32c, "it", stop));
    return CheckBeginning(*data_, array_.data_offset, array_.header_crc32c,
                          "the header", stop);
  }

  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) override {
    const uint64_t size = array_.file_size_bytes;
    if (offset > size || out.size() > size - offset) {
      return absl::DataLossError(absl::StrCat(path(), ": ends at byte ", size));
    }
    if (offset < array_.data_offset) {
      const auto header = out.first(
          std::min<uint64_t>(out.size(), array_.data_offset - offset));
      HEARTH_RETURN_IF_ERROR(data_->Read(offset, header));
      offset += header.size();
      out.remove_prefix(header.size());
    }
    while (!out.empty()) {
      HEARTH_ASSIGN_OR_RETURN(const uint64_t read, ReadSome(offset, out));
      offset += read;
      out.remove_prefix(read);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<io::FileInfo> Info() override { return data_->Info(); }
  const std::string& path() const override { return data_->path(); }

 private:
  uint64_t BeginOf(uint64_t block) const {
    return array_.data_offset + block * array_.crc_block_bytes;
  }

  uint64_t SizeOf(uint64_t block) const {
    return std::min<uint64_t>(array_.crc_block_bytes,
                              array_.file_size_bytes - BeginOf(block));
  }

  /// As many whole blocks as there are at `offset`, or a part of one: the
  /// number of bytes. REQUIRES: they are data.
  absl::StatusOr<uint64_t> ReadSome(uint64_t offset,
                                    absl::Span<std::byte> out) {
    const uint64_t first =
        (offset - array_.data_offset) / array_.crc_block_bytes;
    uint64_t blocks = 0, bytes = 0;
    while (blocks < kMaxBlocks && BeginOf(first) == offset &&
           bytes < out.size() && SizeOf(first + blocks) <= out.size() - bytes) {
      bytes += SizeOf(first + blocks++);
    }
    if (blocks > 0) {
      HEARTH_RETURN_IF_ERROR(ReadBlocks(first, blocks, out.first(bytes)));
      return bytes;
    }
    std::vector<std::byte> block(SizeOf(first));
    HEARTH_RETURN_IF_ERROR(ReadBlocks(first, 1, absl::MakeSpan(block)));
    const uint64_t skipped = offset - BeginOf(first);
    const uint64_t count =
        std::min<uint64_t>(out.size(), block.size() - skipped);
    std::copy_n(block.begin() + static_cast<ptrdiff_t>(skipped), count,
                out.begin());
    return count;
  }

  absl::Status ReadBlocks(uint64_t first, uint64_t count,
                          absl::Span<std::byte> out) {
    std::vector<uint32_t> expected(count);
    HEARTH_RETURN_IF_ERROR(
        checksums_->Read(first * sizeof(uint32_t), AsBytes(expected)));
    HEARTH_RETURN_IF_ERROR(data_->Read(BeginOf(first), out));
    for (uint64_t i = 0; i < count; ++i) {
      HEARTH_RETURN_IF_ERROR(
          CheckBlock(first + i, expected[i], out.first(SizeOf(first + i))));
      out.remove_prefix(SizeOf(first + i));
    }
    return absl::OkStatus();
  }

  absl::Status CheckBlock(uint64_t number, uint32_t expected,
                          absl::Span<std::byte> block) {
    if (BlockCrc32c(block, array_.file_id, number) == expected) {
      return absl::OkStatus();
    }
    std::vector<uint32_t> again(1);
    HEARTH_RETURN_IF_ERROR(
        checksums_->Read(number * sizeof(uint32_t), AsBytes(again)));
    return ReadBlockAgain(*data_, array_, number, again[0], block);
  }

  const ArrayFile array_;
  const std::unique_ptr<io::ReadableFile> data_;
  const std::unique_ptr<io::ReadableFile> checksums_;
};

absl::StatusOr<std::unique_ptr<io::ReadableFile>> Verified(
    io::FileSystem& files, const std::string& folder, const ArrayFile& array,
    std::unique_ptr<io::ReadableFile> data, const std::stop_token& stop) {
  HEARTH_ASSIGN_OR_RETURN(
      std::unique_ptr<io::ReadableFile> checksums,
      files.OpenForRead(io::JoinPath(folder, array.crc_path)));
  auto file = std::make_unique<VerifiedFile>(array, std::move(data),
                                             std::move(checksums));
  HEARTH_RETURN_IF_ERROR(file->CheckHeaderAndChecksums(stop));
  return file;
}

}  // namespace

absl::StatusOr<std::unique_ptr<io::ReadableFile>> OpenVerifiedFile(
    io::FileSystem& files, const std::string& folder, const ArrayFile& array) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> data,
                          files.OpenForRead(ArrayPath(folder, array)));
  return Verified(files, folder, array, std::move(data), {});
}

absl::StatusOr<std::unique_ptr<io::ReadableFile>> OpenVerifiedFileForScan(
    io::FileSystem& files, const std::string& folder, const ArrayFile& array,
    const std::stop_token& stop) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> data,
                          files.OpenForScan(ArrayPath(folder, array)));
  return Verified(files, folder, array, std::move(data), stop);
}

}  // namespace hearth::store
