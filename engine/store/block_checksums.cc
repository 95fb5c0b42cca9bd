#include "engine/store/block_checksums.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/crc32c.h"
#include "engine/base/status.h"

namespace hearth::store {

namespace {

constexpr size_t kPendingChecksums = 64 << 10;
// Bytes that are read between two checks of the stop token.
constexpr size_t kReadBytes = 4 << 20;

template <typename T>
absl::Span<const std::byte> AsBytes(const std::vector<T>& values) {
  return {reinterpret_cast<const std::byte*>(values.data()),
          values.size() * sizeof(T)};
}

// Seal of checksums whose CRC32C is `file_crc32c`.
std::vector<uint32_t> SealOf(uint32_t file_crc32c, uint32_t owner_crc32c) {
  constexpr absl::string_view kMagic = "HRTHSEAL";
  std::vector<uint32_t> seal(kMagic.size() / sizeof(uint32_t));
  std::memcpy(seal.data(), kMagic.data(), kMagic.size());
  seal.push_back(owner_crc32c);
  seal.push_back(Crc32c(AsBytes(seal), file_crc32c));
  return seal;
}

// Fills `values` from `offset`. CANCELLED after a stop.
absl::Status ReadInto(io::ReadableFile& file, uint64_t offset,
                      std::vector<uint32_t>& values,
                      const std::stop_token& stop) {
  absl::Span<std::byte> left(reinterpret_cast<std::byte*>(values.data()),
                             values.size() * sizeof(uint32_t));
  while (!left.empty()) {
    if (stop.stop_requested()) {
      return absl::CancelledError(
          absl::StrCat(file.path(), ": reading was stopped"));
    }
    const absl::Span<std::byte> part =
        left.first(std::min(left.size(), kReadBytes));
    HEARTH_RETURN_IF_ERROR(file.Read(offset, part));
    offset += part.size();
    left.remove_prefix(part.size());
  }
  return absl::OkStatus();
}

absl::Status CheckSize(io::ReadableFile& file, uint64_t bytes) {
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file.Info());
  if (info.size_bytes == bytes) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      file.path(), ": has ", info.size_bytes, " bytes instead of ", bytes));
}

absl::Status IsDamaged(const std::string& path) {
  return absl::DataLossError(
      absl::StrCat(path, ": is damaged (its checksum does not match)"));
}

}  // namespace

uint64_t NumBlocks(uint64_t data_bytes, uint32_t block_bytes) {
  return data_bytes / block_bytes + (data_bytes % block_bytes != 0 ? 1 : 0);
}

BlockChecksumWriter::BlockChecksumWriter(std::unique_ptr<io::WritableFile> file,
                                         uint64_t file_id, uint32_t block_bytes)
    : file_(std::move(file)), file_id_(file_id), block_bytes_(block_bytes) {
  BeginBlock();
}

absl::StatusOr<std::unique_ptr<BlockChecksumWriter>>
BlockChecksumWriter::Create(io::FileSystem& files, const std::string& path,
                            uint64_t file_id, uint32_t block_bytes) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::WritableFile> file,
                          files.Create(path));
  return std::unique_ptr<BlockChecksumWriter>(
      new BlockChecksumWriter(std::move(file), file_id, block_bytes));
}

void BlockChecksumWriter::BeginBlock() {
  block_filled_ = 0;
  // CRC32C of the seed, which the block's bytes continue.
  block_crc_ = BlockCrc32c({}, file_id_, block_number_);
}

void BlockChecksumWriter::EndBlock() {
  pending_.push_back(block_crc_);
  ++block_number_;
  BeginBlock();
}

absl::Status BlockChecksumWriter::Append(absl::Span<const std::byte> data) {
  while (!data.empty()) {
    const auto part =
        data.first(std::min<size_t>(data.size(), block_bytes_ - block_filled_));
    block_crc_ = Crc32c(part, block_crc_);
    block_filled_ += static_cast<uint32_t>(part.size());
    data.remove_prefix(part.size());
    if (block_filled_ == block_bytes_) EndBlock();
    if (pending_.size() >= kPendingChecksums) HEARTH_RETURN_IF_ERROR(Flush());
  }
  return absl::OkStatus();
}

absl::Status BlockChecksumWriter::Flush() {
  const absl::Span<const std::byte> bytes = AsBytes(pending_);
  file_crc_ = Crc32c(bytes, file_crc_);
  digest_.Update(bytes);
  HEARTH_RETURN_IF_ERROR(file_->Append(bytes));
  pending_.clear();
  return absl::OkStatus();
}

absl::StatusOr<BlockChecksumWriter::Summary> BlockChecksumWriter::Finish(
    uint32_t owner_crc32c) {
  if (block_filled_ > 0) EndBlock();
  HEARTH_RETURN_IF_ERROR(Flush());
  HEARTH_RETURN_IF_ERROR(
      file_->Append(AsBytes(SealOf(file_crc_, owner_crc32c))));
  return Finish();
}

absl::StatusOr<BlockChecksumWriter::Summary> BlockChecksumWriter::Finish() {
  if (block_filled_ > 0) EndBlock();
  HEARTH_RETURN_IF_ERROR(Flush());
  HEARTH_RETURN_IF_ERROR(file_->Sync());
  HEARTH_RETURN_IF_ERROR(file_->Close());
  return Summary{file_crc_, digest_.HexDigest()};
}

BlockChecksums::BlockChecksums(std::vector<uint32_t> checksums)
    : checksums_(std::move(checksums)) {}

absl::StatusOr<BlockChecksums> BlockChecksums::Load(
    io::FileSystem& files, const std::string& path, uint64_t num_blocks,
    uint32_t file_crc32c, const std::stop_token& stop) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<io::ReadableFile> file,
                          files.OpenForRead(path));
  HEARTH_RETURN_IF_ERROR(CheckSize(*file, num_blocks * sizeof(uint32_t)));
  std::vector<uint32_t> checksums(num_blocks);
  for (int attempt = 0; attempt < 2; ++attempt) {
    HEARTH_RETURN_IF_ERROR(ReadInto(*file, 0, checksums, stop));
    if (Crc32c(AsBytes(checksums)) == file_crc32c) {
      return BlockChecksums(std::move(checksums));
    }
  }
  return IsDamaged(path);
}

absl::StatusOr<BlockChecksums> BlockChecksums::LoadSealed(
    io::FileSystem& files, const std::string& path, uint64_t num_blocks,
    uint32_t owner_crc32c, const std::stop_token& stop) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<io::ReadableFile> file,
                          files.OpenForRead(path));
  const uint64_t bytes = num_blocks * sizeof(uint32_t);
  HEARTH_RETURN_IF_ERROR(CheckSize(*file, bytes + kSealBytes));
  std::vector<uint32_t> checksums(num_blocks);
  std::vector<uint32_t> seal(kSealBytes / sizeof(uint32_t));
  for (int attempt = 0; attempt < 2; ++attempt) {
    HEARTH_RETURN_IF_ERROR(ReadInto(*file, 0, checksums, stop));
    HEARTH_RETURN_IF_ERROR(ReadInto(*file, bytes, seal, stop));
    if (seal == SealOf(Crc32c(AsBytes(checksums)), owner_crc32c)) {
      return BlockChecksums(std::move(checksums));
    }
  }
  return IsDamaged(path);
}

bool BlockChecksums::Matches(absl::Span<const std::byte> data, uint64_t file_id,
                             uint64_t number) const {
  // With many rows the checksum is seldom in the cache.
  __builtin_prefetch(&checksums_[number]);
  return BlockCrc32c(data, file_id, number) == checksums_[number];
}

}  // namespace hearth::store
