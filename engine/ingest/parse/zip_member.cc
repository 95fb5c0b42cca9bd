#include "engine/ingest/parse/zip_member.h"

#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/parse/inflater.h"
#include "engine/ingest/parse/named_status.h"

namespace hearth::ingest {
namespace {

constexpr uint64_t kOutputBytes = 256 << 10;

uint32_t Extend(uint32_t crc, absl::Span<const std::byte> bytes) {
  return static_cast<uint32_t>(
      crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

/// The common part of both kinds of member.
class MemberFile : public io::ReadableFile {
 public:
  MemberFile(std::shared_ptr<io::ReadableFile> archive, ZipMember member,
             absl::Time modified)
      : archive_(std::move(archive)),
        member_(std::move(member)),
        path_(
            absl::StrCat(archive_->path(), ": ", absl::CEscape(member_.name))) {
    info_.size_bytes = member_.size_bytes;
    info_.modified = modified;
    info_.is_regular = true;
  }

  absl::StatusOr<io::FileInfo> Info() override { return info_; }
  const std::string& path() const override { return path_; }

 protected:
  absl::Status CheckRange(uint64_t offset, uint64_t count) const {
    if (offset <= member_.size_bytes && count <= member_.size_bytes - offset) {
      return absl::OkStatus();
    }
    return DataLoss(absl::StrCat("ends at byte ", member_.size_bytes,
                                 ", where bytes from ", offset,
                                 " on were wanted"));
  }

  absl::Status CheckCrc(uint32_t crc) const {
    if (crc == member_.crc32) return absl::OkStatus();
    return DataLoss(absl::StrCat(
        "is damaged: its CRC-32 is ", absl::Hex(crc, absl::kZeroPad8),
        ", the archive says ", absl::Hex(member_.crc32, absl::kZeroPad8)));
  }

  absl::Status DataLoss(absl::string_view problem) const {
    return absl::DataLossError(absl::StrCat(path_, ": ", problem));
  }

  std::string shown_name() const { return absl::CEscape(member_.name); }
  io::ReadableFile& archive() const { return *archive_; }
  const ZipMember& member() const { return member_; }

 private:
  const std::shared_ptr<io::ReadableFile> archive_;
  const ZipMember member_;
  const std::string path_;
  io::FileInfo info_;
};

/// Reads go straight to the archive. The CRC grows with every read that covers
/// its end, so whoever reads all of the member in order has it verified.
class StoredMember final : public MemberFile {
 public:
  StoredMember(std::shared_ptr<io::ReadableFile> archive, ZipMember member,
               uint64_t data_offset, absl::Time modified)
      : MemberFile(std::move(archive), std::move(member), modified),
        data_offset_(data_offset) {}

  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) override {
    HEARTH_RETURN_IF_ERROR(CheckRange(offset, out.size()));
    HEARTH_RETURN_IF_ERROR(archive().Read(data_offset_ + offset, out));
    absl::MutexLock lock(&mutex_);
    if (offset <= summed_ && summed_ < offset + out.size()) {
      crc_ = Extend(crc_, out.subspan(summed_ - offset));
      summed_ = offset + out.size();
    }
    const bool reads_end = offset + out.size() == member().size_bytes;
    const bool is_summed = summed_ == member().size_bytes;
    return reads_end && is_summed ? CheckCrc(crc_) : absl::OkStatus();
  }

 private:
  const uint64_t data_offset_;
  absl::Mutex mutex_;
  /// CRC of the first `summed_` bytes.
  uint32_t crc_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t summed_ ABSL_GUARDED_BY(mutex_) = 0;
};

/// Decompresses into a chunk, from which reads are served; chunks follow one
/// another, and a read before the chunk begins again with the first.
class DeflatedMember final : public MemberFile {
 public:
  DeflatedMember(std::shared_ptr<io::ReadableFile> archive, ZipMember member,
                 uint64_t data_offset, absl::Time modified)
      : MemberFile(std::move(archive), std::move(member), modified),
        data_offset_(data_offset) {}

  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) override {
    HEARTH_RETURN_IF_ERROR(CheckRange(offset, out.size()));
    absl::MutexLock lock(&mutex_);
    // A member without bytes is verified by the first read.
    if (inflater_ == nullptr || offset < chunk_begin_) Restart();
    HEARTH_RETURN_IF_ERROR(status_);
    do {
      while (offset >= ChunkEnd() && ChunkEnd() < member().size_bytes) {
        status_ = NextChunk();
        HEARTH_RETURN_IF_ERROR(status_);
      }
      if (member().size_bytes == 0 && !finished_) {
        status_ = Finish();
        HEARTH_RETURN_IF_ERROR(status_);
      }
      const size_t count = std::min<uint64_t>(out.size(), ChunkEnd() - offset);
      if (count == 0) break;
      std::memcpy(out.data(), chunk_.data() + (offset - chunk_begin_), count);
      offset += count;
      out.remove_prefix(count);
    } while (!out.empty());
    return absl::OkStatus();
  }

 private:
  void Restart() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    inflater_ = std::make_unique<Inflater>(
        archive(), data_offset_, data_offset_ + member().compressed_bytes,
        Inflater::Format::kRaw);
    chunk_begin_ = 0;
    chunk_.clear();
    crc_ = 0;
    finished_ = false;
    status_ = absl::OkStatus();
  }

  uint64_t ChunkEnd() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return chunk_begin_ + chunk_.size();
  }

  absl::Status NextChunk() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    chunk_begin_ = ChunkEnd();
    chunk_.resize(std::min(kOutputBytes, member().size_bytes - chunk_begin_));
    const auto count = inflater_->Read(absl::MakeSpan(chunk_));
    HEARTH_RETURN_IF_ERROR(
        Named(count.status(), archive().path(), shown_name()));
    if (*count < chunk_.size()) {
      return DataLoss(absl::StrCat("has ", chunk_begin_ + *count,
                                   " bytes, the archive says ",
                                   member().size_bytes));
    }
    crc_ = Extend(crc_, chunk_);
    return ChunkEnd() == member().size_bytes ? Finish() : absl::OkStatus();
  }

  /// All bytes are there: no more may follow, and the CRC must be right.
  absl::Status Finish() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    finished_ = true;
    std::byte extra;
    const auto count = inflater_->Read(absl::MakeSpan(&extra, 1));
    HEARTH_RETURN_IF_ERROR(
        Named(count.status(), archive().path(), shown_name()));
    const uint64_t end = data_offset_ + member().compressed_bytes;
    if (*count > 0 || inflater_->input_offset() != end) {
      return DataLoss(absl::StrCat("goes on after the ", member().size_bytes,
                                   " bytes that the archive says"));
    }
    return CheckCrc(crc_);
  }

  const uint64_t data_offset_;
  absl::Mutex mutex_;
  std::unique_ptr<Inflater> inflater_ ABSL_GUARDED_BY(mutex_);
  uint64_t chunk_begin_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::byte> chunk_ ABSL_GUARDED_BY(mutex_);
  uint32_t crc_ ABSL_GUARDED_BY(mutex_) = 0;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<io::ReadableFile> NewZipMemberFile(
    std::shared_ptr<io::ReadableFile> archive, ZipMember member,
    uint64_t data_offset, absl::Time modified) {
  if (member.is_deflated) {
    return std::make_unique<DeflatedMember>(
        std::move(archive), std::move(member), data_offset, modified);
  }
  return std::make_unique<StoredMember>(std::move(archive), std::move(member),
                                        data_offset, modified);
}

}  // namespace hearth::ingest
