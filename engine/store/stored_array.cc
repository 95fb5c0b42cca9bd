#include "engine/store/stored_array.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/base/crc32c.h"
#include "engine/base/status.h"
#include "engine/io/aligned_memory.h"
#include "engine/store/block_checksums.h"

namespace hearth::store {

namespace {

// A multiple of every block size; large enough for the disk's full speed.
constexpr uint64_t kChunkBytes = 8 << 20;
constexpr uint64_t kPageBytes = 4096;

uint64_t PageOf(uint64_t place) { return place - place % kPageBytes; }

}  // namespace

std::string ArrayPath(const std::string& folder, const ArrayFile& array) {
  return array.in_place ? array.path : io::JoinPath(folder, array.path);
}

absl::Status CheckIsWhole(const std::string& folder, const ArrayFile& array) {
  if (!array.rows.has_value()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      ArrayPath(folder, array), ": has ",
      DescribeRows(*array.rows, array.shape[0]),
      " alone, as its dataset was copied with --placement sharded: it can be "
      "trained on by all machines with the other rows (--machines, with "
      "--strategy diskgnn or foresight); all else needs a copy of the whole "
      "dataset"));
}

absl::StatusOr<CheckedFile> WithChecksums(
    io::FileSystem& files, const std::string& folder, const ArrayFile& array,
    std::unique_ptr<io::ReadableFile> file, const std::stop_token& stop) {
  HEARTH_RETURN_IF_ERROR(CheckIsWhole(folder, array));
  HEARTH_ASSIGN_OR_RETURN(
      BlockChecksums checksums,
      BlockChecksums::Load(files, io::JoinPath(folder, array.crc_path),
                           NumBlocks(array.file_size_bytes - array.data_offset,
                                     array.crc_block_bytes),
                           array.crc_file_crc32c, stop));
  return CheckedFile{std::move(file), std::move(checksums)};
}

absl::Status ReadBlockAgain(io::ReadableFile& data, const ArrayFile& array,
                            uint64_t number, uint64_t offset, uint32_t crc32c,
                            absl::Span<std::byte> block) {
  const std::string place =
      absl::StrCat(data.path(), ": block ", number, " (bytes ", offset, " .. ",
                   offset + block.size() - 1, ")");
  HEARTH_RETURN_IF_ERROR(Annotate(data.Read(offset, block), place));
  if (BlockCrc32c(block, array.file_id, number) == crc32c) {
    return absl::OkStatus();
  }
  return absl::DataLossError(
      absl::StrCat(place, " is damaged (its checksum does not match)"));
}

absl::Status CheckBlock(const CheckedFile& from, const ArrayFile& array,
                        uint64_t begin, absl::Span<std::byte> block) {
  const uint64_t number = begin / array.crc_block_bytes;
  if (from.checksums.Matches(block, array.file_id, number)) {
    return absl::OkStatus();
  }
  return ReadBlockAgain(*from.file, array, number,
                        array.data_offset + number * array.crc_block_bytes,
                        from.checksums.of(number), block);
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

namespace {

absl::StatusOr<LoadedArray> ReadVerified(io::FileSystem& files,
                                         const std::string& folder,
                                         const ArrayFile& array,
                                         const std::stop_token& stop) {
  const uint64_t data_bytes = array.file_size_bytes - array.data_offset;
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> opened,
                          files.OpenForRead(ArrayPath(folder, array)));
  HEARTH_ASSIGN_OR_RETURN(
      const CheckedFile from,
      WithChecksums(files, folder, array, std::move(opened), stop));
  HEARTH_ASSIGN_OR_RETURN(io::AlignedMemory memory,
                          io::AlignedMemory::Allocate(data_bytes));
  for (uint64_t begin = 0; begin < data_bytes; begin += kChunkBytes) {
    if (stop.stop_requested()) {
      return absl::CancelledError(
          absl::StrCat(from.file->path(), ": loading was stopped"));
    }
    const uint64_t size = std::min(kChunkBytes, data_bytes - begin);
    HEARTH_RETURN_IF_ERROR(
        ReadChecked(from, array, begin, memory.bytes().subspan(begin, size)));
  }
  return LoadedArray(std::move(memory));
}

absl::Status Changed(const std::string& path, absl::string_view what) {
  return absl::FailedPreconditionError(
      absl::StrCat(path, ": has changed since it was imported (", what, ")"));
}

absl::Status CheckSize(io::FileSystem& files, const std::string& path,
                       uint64_t size_bytes) {
  const absl::StatusOr<io::FileInfo> info = files.Stat(path);
  if (absl::IsNotFound(info.status())) return Changed(path, "it is gone");
  HEARTH_RETURN_IF_ERROR(info.status());
  if (!info->is_regular) return Changed(path, "it is no regular file");
  return CheckArraySize(path, info->size_bytes, size_bytes);
}

absl::Status CheckForeignFile(io::FileSystem& files, const ArrayFile& array) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<io::ReadableFile> file,
                          files.OpenForRead(array.path));
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file->Info());
  if (absl::ToUnixNanos(info.modified) != array.modified_ns) {
    return Changed(array.path, "its modification time is another");
  }
  std::vector<std::byte> header(array.data_offset);
  HEARTH_RETURN_IF_ERROR(file->Read(0, absl::MakeSpan(header)));
  if (Crc32c(header) != array.header_crc32c) {
    return Changed(array.path, "its header is another");
  }
  return absl::OkStatus();
}

}  // namespace

LoadedArray::LoadedArray(io::AlignedMemory memory)
    : memory_(std::move(memory)) {}

LoadedArray::LoadedArray(std::unique_ptr<io::MappedFile> mapped,
                         uint64_t data_offset)
    : mapped_(std::move(mapped)), data_offset_(data_offset) {}

absl::Status LoadedArray::status() const {
  return mapped_ != nullptr ? mapped_->status() : absl::OkStatus();
}

void LoadedArray::Prefetch(const std::stop_token& stop) const {
  if (mapped_ != nullptr) mapped_->Prefetch(stop);
}

absl::Span<const std::byte> LoadedArray::bytes() const {
  if (mapped_ != nullptr) return mapped_->data().subspan(data_offset_);
  return memory_.bytes();
}

absl::StatusOr<LoadedArray> LoadArray(io::FileSystem& files,
                                      const std::string& folder,
                                      const ArrayFile& array,
                                      Residency residency,
                                      const std::stop_token& stop) {
  HEARTH_RETURN_IF_ERROR(CheckIsWhole(folder, array));
  if (residency == Residency::kMemory) {
    return ReadVerified(files, folder, array, stop);
  }
  const std::string path = ArrayPath(folder, array);
  const io::AccessPattern pattern = residency == Residency::kMapped
                                        ? io::AccessPattern::kRandom
                                        : io::AccessPattern::kNormal;
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::MappedFile> mapped,
                          files.Map(path, pattern));
  HEARTH_RETURN_IF_ERROR(
      CheckArraySize(path, mapped->data().size(), array.file_size_bytes));
  return LoadedArray(std::move(mapped), array.data_offset);
}

absl::Status CheckArraySize(const std::string& path, uint64_t size_bytes,
                            uint64_t imported_bytes) {
  if (size_bytes == imported_bytes) return absl::OkStatus();
  return Changed(path, absl::StrCat("it has ", size_bytes, " bytes instead of ",
                                    imported_bytes));
}

absl::Status CheckArrayUnchanged(io::FileSystem& files,
                                 const std::string& folder,
                                 const ArrayFile& array) {
  HEARTH_RETURN_IF_ERROR(
      CheckSize(files, ArrayPath(folder, array), array.StoredBytes()));
  const uint64_t data_bytes = array.file_size_bytes - array.data_offset;
  HEARTH_RETURN_IF_ERROR(CheckSize(
      files, io::JoinPath(folder, array.crc_path),
      NumBlocks(data_bytes, array.crc_block_bytes) * sizeof(uint32_t)));
  return array.in_place ? CheckForeignFile(files, array) : absl::OkStatus();
}

// The memory of an ArrayStream holds the file from base_ on, so that a place in
// it is as far from a page's beginning as in the file. A block that the last
// read has cut stays for the next one.

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

namespace {

constexpr uint64_t kVerifiedChunkBytes = 256 << 10;
// Most checksums that are read at a time.
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
    chunk.resize(std::min(kVerifiedChunkBytes, bytes - at));
    HEARTH_RETURN_IF_ERROR(file.Read(at, absl::MakeSpan(chunk)));
    crc = Crc32c(chunk, crc);
  }
  return crc;
}

/// DATA_LOSS if the file's first `bytes` bytes, which are its `what`, do not
/// have the checksum at the second attempt either.
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

  /// Reads as many whole blocks at `offset` as fit, or a part of one; returns
  /// the number of bytes. REQUIRES: the bytes are data, not header.
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
    return ReadBlockAgain(*data_, array_, number, BeginOf(number), again[0],
                          block);
  }

  const ArrayFile array_;
  const std::unique_ptr<io::ReadableFile> data_;
  const std::unique_ptr<io::ReadableFile> checksums_;
};

// A shard's file, read at the places of the whole array.
class ShardFile final : public io::ReadableFile {
 public:
  ShardFile(ArrayFile array, std::string folder,
            std::unique_ptr<io::ReadableFile> file)
      : array_(std::move(array)),
        folder_(std::move(folder)),
        file_(std::move(file)) {}

  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) override {
    const uint64_t end = offset + out.size();
    if (end <= array_.data_offset) return file_->Read(offset, out);
    const ByteRange kept = array_.KeptBytes();
    if (offset < array_.data_offset + kept.begin ||
        end > array_.data_offset + kept.end) {
      return CheckIsWhole(folder_, array_);
    }
    return file_->Read(offset - kept.begin, out);
  }

  absl::StatusOr<io::FileInfo> Info() override {
    HEARTH_ASSIGN_OR_RETURN(io::FileInfo info, file_->Info());
    info.size_bytes = array_.file_size_bytes;
    return info;
  }
  const std::string& path() const override { return file_->path(); }

 private:
  const ArrayFile array_;
  const std::string folder_;
  const std::unique_ptr<io::ReadableFile> file_;
};

absl::StatusOr<std::unique_ptr<io::ReadableFile>> Verified(
    io::FileSystem& files, const std::string& folder, const ArrayFile& array,
    std::unique_ptr<io::ReadableFile> data, const std::stop_token& stop) {
  if (array.rows.has_value()) {
    data = std::make_unique<ShardFile>(array, folder, std::move(data));
  }
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
