#include "engine/ingest/parse/zip_archive.h"

#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/status.h"
#include "engine/ingest/parse/byte_stream.h"
#include "engine/ingest/parse/inflater.h"
#include "engine/io/file_system.h"

// PKWARE's APPNOTE.TXT, from the end of the file backwards:
// 1. the end record: 22 bytes and a comment, the last thing in the file;
// 2. before it, if a value does not fit there, zip64's locator (20 bytes),
//    which leads to zip64's own end record;
// 3. the directory that the end record names: for each member 46 bytes, its
//    name, extra fields (zip64's sizes among them) and a comment;
// 4. each member: 30 bytes, name, extra fields, data.

namespace hearth::ingest {

namespace {

constexpr uint64_t kEndBytes = 22;
constexpr uint64_t kMaxCommentBytes = 0xFFFF;
constexpr uint64_t kZip64LocatorBytes = 20;
constexpr uint64_t kZip64EndBytes = 56;
constexpr size_t kRecordBytes = 46;
constexpr size_t kLocalBytes = 30;

constexpr uint32_t kEndMagic = 0x06054b50;
constexpr uint32_t kZip64LocatorMagic = 0x07064b50;
constexpr uint32_t kZip64EndMagic = 0x06064b50;
constexpr uint32_t kRecordMagic = 0x02014b50;
constexpr uint32_t kLocalMagic = 0x04034b50;

constexpr uint16_t kIn64 = 0xFFFF;
constexpr uint32_t kIn64Wide = 0xFFFFFFFF;
constexpr uint16_t kZip64Field = 1;

// Flags for encryption, patch data, strong encryption, hidden headers.
constexpr uint16_t kRefusedFlags = 0x0001 | 0x0020 | 0x0040 | 0x2000;
constexpr uint16_t kStored = 0;
constexpr uint16_t kDeflated = 8;

// Best ratio of deflate: a match of 258 bytes in two bits, under 1,032 to one.
constexpr uint64_t kMaxRatio = 1032;

template <typename T>
T Little(absl::string_view bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

absl::StatusOr<std::string> ReadBytes(io::ReadableFile& file, uint64_t offset,
                                      uint64_t count) {
  std::string bytes(count, '\0');
  HEARTH_RETURN_IF_ERROR(file.Read(
      offset, absl::MakeSpan(reinterpret_cast<std::byte*>(bytes.data()),
                             bytes.size())));
  return bytes;
}

std::string Shown(absl::string_view name) {
  return absl::StrCat("\"", absl::CEscape(name.substr(0, 200)), "\"");
}

/// Place and size of the directory.
struct Extent {
  uint64_t offset = 0;
  uint64_t size = 0;
  uint64_t members = 0;
  /// Offset of the end records, where the directory must have ended.
  uint64_t limit = 0;
};

class DirectoryReader {
 public:
  DirectoryReader(io::ReadableFile& file, uint64_t file_size)
      : file_(file), file_size_(file_size) {}

  absl::StatusOr<std::vector<ZipMember>> Read() {
    HEARTH_ASSIGN_OR_RETURN(const Extent extent, FindDirectory());
    HEARTH_RETURN_IF_ERROR(Check(extent));
    HEARTH_ASSIGN_OR_RETURN(const std::string bytes,
                            ReadBytes(file_, extent.offset, extent.size));
    std::vector<ZipMember> members;
    absl::string_view rest = bytes;
    for (uint64_t i = 0; i < extent.members; ++i) {
      HEARTH_ASSIGN_OR_RETURN(ZipMember member, TakeRecord(rest));
      members.push_back(std::move(member));
    }
    if (!rest.empty()) {
      return absl::DataLossError(
          absl::StrCat("has ", rest.size(), " bytes after the ", extent.members,
                       " members of its directory"));
    }
    HEARTH_RETURN_IF_ERROR(CheckNames(members));
    HEARTH_RETURN_IF_ERROR(CheckPlaces(members, extent.offset));
    return members;
  }

 private:
  absl::StatusOr<Extent> FindDirectory() {
    const uint64_t tail_size =
        std::min(file_size_, kEndBytes + kMaxCommentBytes);
    const uint64_t tail_offset = file_size_ - tail_size;
    HEARTH_ASSIGN_OR_RETURN(const std::string tail,
                            ReadBytes(file_, tail_offset, tail_size));
    for (uint64_t back = kEndBytes; back <= tail_size; ++back) {
      const absl::string_view end =
          absl::string_view(tail).substr(tail_size - back);
      if (Little<uint32_t>(end, 0) == kEndMagic &&
          Little<uint16_t>(end, 20) == back - kEndBytes) {
        return ParseEnd(end, file_size_ - back);
      }
    }
    return absl::InvalidArgumentError(
        "is not a zip file, or is truncated: there is no directory at its end");
  }

  absl::StatusOr<Extent> ParseEnd(absl::string_view end, uint64_t end_offset) {
    const auto disk = Little<uint16_t>(end, 4);
    const auto directory_disk = Little<uint16_t>(end, 6);
    const auto members_here = Little<uint16_t>(end, 8);
    Extent extent;
    extent.members = Little<uint16_t>(end, 10);
    extent.size = Little<uint32_t>(end, 12);
    extent.offset = Little<uint32_t>(end, 16);
    extent.limit = end_offset;
    HEARTH_ASSIGN_OR_RETURN(const bool is_zip64, ReadZip64End(extent));
    if (is_zip64) return extent;
    if (disk != 0 || directory_disk != 0 || members_here != extent.members) {
      return SeveralFiles();
    }
    return extent;
  }

  /// Reads zip64's end record, if there is one, into `extent`, and returns
  /// whether there is. Some writers (PyTorch) add it to small archives, too.
  absl::StatusOr<bool> ReadZip64End(Extent& extent) {
    if (extent.limit < kZip64LocatorBytes) return false;
    const uint64_t locator_offset = extent.limit - kZip64LocatorBytes;
    HEARTH_ASSIGN_OR_RETURN(
        const std::string locator,
        ReadBytes(file_, locator_offset, kZip64LocatorBytes));
    if (Little<uint32_t>(locator, 0) != kZip64LocatorMagic) return false;
    const auto offset = Little<uint64_t>(locator, 8);
    if (locator_offset < kZip64EndBytes ||
        offset > locator_offset - kZip64EndBytes) {
      return absl::DataLossError(absl::StrCat(
          "has its zip64 end record at byte ", offset, ", where none can be"));
    }
    HEARTH_ASSIGN_OR_RETURN(const std::string end,
                            ReadBytes(file_, offset, kZip64EndBytes));
    if (Little<uint32_t>(end, 0) != kZip64EndMagic) {
      return absl::DataLossError(
          absl::StrCat("has no zip64 end record at byte ", offset));
    }
    if (Little<uint32_t>(end, 16) != 0 || Little<uint32_t>(end, 20) != 0 ||
        Little<uint32_t>(locator, 4) != 0 ||
        Little<uint64_t>(end, 24) != Little<uint64_t>(end, 32)) {
      return SeveralFiles();
    }
    extent = {Little<uint64_t>(end, 48), Little<uint64_t>(end, 40),
              Little<uint64_t>(end, 32), offset};
    return true;
  }

  static absl::Status SeveralFiles() {
    return absl::InvalidArgumentError(
        "is part of a zip archive over several files");
  }

  static absl::Status Check(const Extent& extent) {
    if (extent.offset > extent.limit ||
        extent.size != extent.limit - extent.offset) {
      return absl::DataLossError(
          absl::StrCat("has a directory of ", extent.size, " bytes at byte ",
                       extent.offset, ", which does not end at byte ",
                       extent.limit, " where the end record begins"));
    }
    if (extent.size > kMaxZipDirectoryBytes ||
        extent.members > kMaxZipMembers) {
      return absl::ResourceExhaustedError(
          absl::StrCat("has a directory of ", extent.members, " members in ",
                       extent.size, " bytes; at most ", kMaxZipMembers, " in ",
                       kMaxZipDirectoryBytes, " are read"));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<ZipMember> TakeRecord(absl::string_view& rest) {
    if (rest.size() < kRecordBytes ||
        Little<uint32_t>(rest, 0) != kRecordMagic) {
      return absl::DataLossError(
          absl::StrCat("has no record of a member ", rest.size(),
                       " bytes before its directory's end"));
    }
    const absl::string_view record = rest.substr(0, kRecordBytes);
    const size_t name_size = Little<uint16_t>(record, 28);
    const size_t extra_size = Little<uint16_t>(record, 30);
    const size_t comment_size = Little<uint16_t>(record, 32);
    const size_t size = kRecordBytes + name_size + extra_size + comment_size;
    if (rest.size() < size) {
      return absl::DataLossError("is truncated within its directory");
    }
    ZipMember member;
    member.name = std::string(rest.substr(kRecordBytes, name_size));
    const absl::string_view extra =
        rest.substr(kRecordBytes + name_size, extra_size);
    rest.remove_prefix(size);
    absl::Status status = ParseRecord(record, extra, member);
    if (status.ok()) status = CheckMember(member);
    HEARTH_RETURN_IF_ERROR(Annotate(status, Shown(member.name)));
    return member;
  }

  static absl::Status ParseRecord(absl::string_view record,
                                  absl::string_view extra, ZipMember& member) {
    if ((Little<uint16_t>(record, 8) & kRefusedFlags) != 0) {
      return absl::InvalidArgumentError("is encrypted or a patch");
    }
    const auto method = Little<uint16_t>(record, 10);
    if (method != kStored && method != kDeflated) {
      return absl::InvalidArgumentError(
          absl::StrCat("is compressed with method ", method,
                       "; only stored and deflated members are read"));
    }
    member.is_deflated = method == kDeflated;
    member.crc32 = Little<uint32_t>(record, 16);
    member.compressed_bytes = Little<uint32_t>(record, 20);
    member.size_bytes = Little<uint32_t>(record, 24);
    member.header_offset = Little<uint32_t>(record, 42);
    HEARTH_RETURN_IF_ERROR(ParseZip64(extra, member));
    const auto disk = Little<uint16_t>(record, 34);
    if (disk != 0 && disk != kIn64) return SeveralFiles();
    return absl::OkStatus();
  }

  /// Reads the numbers that did not fit their 32-bit fields, in this order.
  static absl::Status ParseZip64(absl::string_view extra, ZipMember& member) {
    uint64_t* const wide[] = {&member.size_bytes, &member.compressed_bytes,
                              &member.header_offset};
    absl::string_view field;
    while (extra.size() >= 4) {
      const auto id = Little<uint16_t>(extra, 0);
      const size_t size = Little<uint16_t>(extra, 2);
      if (size > extra.size() - 4) break;
      if (id == kZip64Field) field = extra.substr(4, size);
      extra.remove_prefix(4 + size);
    }
    for (uint64_t* const number : wide) {
      if (*number != kIn64Wide) continue;
      // Without the extra field the number is meant literally: 4 GiB - 1.
      if (field.empty()) continue;
      if (field.size() < sizeof(uint64_t)) {
        return absl::DataLossError("lacks its zip64 sizes");
      }
      *number = Little<uint64_t>(field, 0);
      field.remove_prefix(sizeof(uint64_t));
    }
    return absl::OkStatus();
  }

  static absl::Status CheckMember(const ZipMember& member) {
    constexpr auto kMax =
        static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    const bool possible =
        member.is_deflated
            ? member.size_bytes / kMaxRatio <= member.compressed_bytes
            : member.size_bytes == member.compressed_bytes;
    if (possible && member.size_bytes <= kMax) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("cannot have ", member.size_bytes, " bytes, ",
                     member.is_deflated ? "deflated" : "stored", " in ",
                     member.compressed_bytes));
  }

  static absl::Status CheckNames(const std::vector<ZipMember>& members) {
    absl::flat_hash_set<absl::string_view> names;
    for (const ZipMember& member : members) {
      if (!names.insert(member.name).second) {
        return absl::InvalidArgumentError(
            absl::StrCat("has ", Shown(member.name), " twice"));
      }
    }
    return absl::OkStatus();
  }

  /// Checks that each member ends before the next one begins.
  static absl::Status CheckPlaces(const std::vector<ZipMember>& members,
                                  uint64_t directory_offset) {
    std::vector<const ZipMember*> placed;
    for (const ZipMember& member : members) placed.push_back(&member);
    std::sort(placed.begin(), placed.end(),
              [](const ZipMember* a, const ZipMember* b) {
                return a->header_offset < b->header_offset;
              });
    for (size_t i = 0; i < placed.size(); ++i) {
      const uint64_t limit = i + 1 < placed.size()
                                 ? placed[i + 1]->header_offset
                                 : directory_offset;
      const uint64_t begin = placed[i]->header_offset;
      const uint64_t headers = kLocalBytes + placed[i]->name.size();
      if (begin > limit || headers > limit - begin ||
          placed[i]->compressed_bytes > limit - begin - headers) {
        return absl::InvalidArgumentError(
            absl::StrCat("has ", Shown(placed[i]->name), " at byte ", begin,
                         ", whose ", placed[i]->compressed_bytes,
                         " bytes do not end before byte ", limit));
      }
    }
    return absl::OkStatus();
  }

  io::ReadableFile& file_;
  const uint64_t file_size_;
};

absl::StatusOr<uint64_t> ReadLocalHeader(io::ReadableFile& file,
                                         const ZipMember& member) {
  HEARTH_ASSIGN_OR_RETURN(
      const std::string header,
      ReadBytes(file, member.header_offset, kLocalBytes + member.name.size()));
  if (Little<uint32_t>(header, 0) != kLocalMagic) {
    return absl::DataLossError(
        absl::StrCat("has no header at byte ", member.header_offset));
  }
  const uint16_t method = member.is_deflated ? kDeflated : kStored;
  if (Little<uint16_t>(header, 8) != method ||
      Little<uint16_t>(header, 26) != member.name.size() ||
      absl::string_view(header).substr(kLocalBytes) != member.name) {
    return absl::DataLossError(
        absl::StrCat("has a header at byte ", member.header_offset,
                     " that is not what the directory says"));
  }
  const uint64_t offset =
      member.header_offset + header.size() + Little<uint16_t>(header, 28);
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file.Info());
  if (offset > info.size_bytes ||
      member.compressed_bytes > info.size_bytes - offset) {
    return absl::DataLossError("passes the end of the archive");
  }
  return offset;
}

}  // namespace

absl::StatusOr<std::vector<ZipMember>> ReadZipDirectory(
    io::ReadableFile& file) {
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file.Info());
  auto members = DirectoryReader(file, info.size_bytes).Read();
  if (!members.ok()) return Named(members.status(), file.path());
  return members;
}

absl::StatusOr<uint64_t> ReadZipDataOffset(io::ReadableFile& file,
                                           const ZipMember& member) {
  auto offset = ReadLocalHeader(file, member);
  if (!offset.ok()) {
    return Named(offset.status(), file.path(), Shown(member.name));
  }
  return offset;
}

namespace {

constexpr uint64_t kOutputBytes = 256 << 10;

uint32_t Extend(uint32_t crc, absl::Span<const std::byte> bytes) {
  return static_cast<uint32_t>(
      crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

/// Base of both kinds of member.
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

/// Reads go straight to the archive. The CRC is extended by every read that
/// covers its current end, so reading all of the member in order verifies it.
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

/// Decompresses one chunk after another, from which reads are served; a read
/// before the current chunk starts again with the first.
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

  /// Checks that the member ends here, and its CRC.
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

/// Opens `member`, whose data begins at `data_offset` of `archive`, as a file;
/// see ZipArchive::OpenMember. `modified` is the archive's.
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

}  // namespace

ZipArchive::ZipArchive(std::shared_ptr<io::ReadableFile> file,
                       std::vector<ZipMember> members, absl::Time modified)
    : file_(std::move(file)),
      members_(std::move(members)),
      modified_(modified) {}

absl::StatusOr<std::unique_ptr<ZipArchive>> ZipArchive::Open(
    std::shared_ptr<io::ReadableFile> file) {
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file->Info());
  HEARTH_ASSIGN_OR_RETURN(std::vector<ZipMember> members,
                          ReadZipDirectory(*file));
  return std::unique_ptr<ZipArchive>(
      new ZipArchive(std::move(file), std::move(members), info.modified));
}

const ZipMember* ZipArchive::Find(absl::string_view name) const {
  const auto found =
      std::find_if(members_.begin(), members_.end(),
                   [&](const ZipMember& m) { return m.name == name; });
  return found == members_.end() ? nullptr : &*found;
}

absl::StatusOr<uint64_t> ZipArchive::DataOffset(absl::string_view name) const {
  const ZipMember* const member = Find(name);
  if (member == nullptr) {
    return absl::NotFoundError(absl::StrCat(file_->path(), ": has no member \"",
                                            absl::CEscape(name), "\""));
  }
  return ReadZipDataOffset(*file_, *member);
}

absl::StatusOr<std::unique_ptr<io::ReadableFile>> ZipArchive::OpenMember(
    absl::string_view name) const {
  HEARTH_ASSIGN_OR_RETURN(const uint64_t offset, DataOffset(name));
  return NewZipMemberFile(file_, *Find(name), offset, modified_);
}

}  // namespace hearth::ingest
