#include "engine/ingest/export/zip_writer.h"

#include <zlib.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

// PKWARE's APPNOTE.TXT, 4.3: for each member a local header and its data; then
// the central directory with a header for each; then its end record, and before
// that, where a number does not fit, zip64's end record and locator.

namespace hearth::ingest {
namespace {

constexpr uint32_t kLocalSignature = 0x04034B50;
constexpr uint32_t kCentralSignature = 0x02014B50;
constexpr uint32_t kZip64EndSignature = 0x06064B50;
constexpr uint32_t kZip64LocatorSignature = 0x07064B50;
constexpr uint32_t kEndSignature = 0x06054B50;
constexpr uint16_t kZip64Tag = 0x0001;
// As torch calls its padding.
constexpr uint16_t kPaddingTag = 0x4246;
constexpr uint16_t kVersion = 45;
// 1980-01-01, the first day there is.
constexpr uint16_t kDate = 0x0021;
constexpr uint32_t kIn64 = 0xFFFFFFFF;
constexpr uint64_t kCrcOffset = 14;
// zlib counts the bytes of one call in 32 bits.
constexpr size_t kMaxInput = 1 << 30;

template <typename Number>
void Put(Number number, std::string& out) {
  for (size_t i = 0; i < sizeof(Number); ++i) {
    out.push_back(static_cast<char>(number >> (8 * i) & 0xFF));
  }
}

uint32_t Short(uint64_t number) {
  return number < kIn64 ? static_cast<uint32_t>(number) : kIn64;
}

/// Passes bytes on to the file, and counts and checks them.
class MemberSink : public ByteSink {
 public:
  MemberSink(io::WritableFile& file, uint64_t size)
      : file_(file), size_(size) {}

  absl::Status Append(absl::Span<const std::byte> data) override {
    if (data.size() > size_ - written_) {
      return absl::InternalError("a zip member is longer than was said");
    }
    written_ += data.size();
    HEARTH_RETURN_IF_ERROR(file_.Append(data));
    while (!data.empty()) {
      const auto part = data.first(std::min(data.size(), kMaxInput));
      crc32_ = static_cast<uint32_t>(
          ::crc32(crc32_, reinterpret_cast<const Bytef*>(part.data()),
                  static_cast<uInt>(part.size())));
      data.remove_prefix(part.size());
    }
    return absl::OkStatus();
  }

  absl::Status Finish() override {
    if (written_ == size_) return absl::OkStatus();
    return absl::InternalError("a zip member is shorter than was said");
  }

  uint32_t crc32() const { return crc32_; }

 private:
  io::WritableFile& file_;
  const uint64_t size_;
  uint64_t written_ = 0;
  uint32_t crc32_ = 0;
};

/// The fields that both headers of a member have after their version.
void PutCommon(uint32_t crc32, uint32_t size, std::string& out) {
  Put<uint16_t>(0, out);  // Flags.
  Put<uint16_t>(0, out);  // Stored.
  Put<uint16_t>(0, out);  // Time.
  Put<uint16_t>(kDate, out);
  Put<uint32_t>(crc32, out);
  Put<uint32_t>(size, out);
  Put<uint32_t>(size, out);
}

}  // namespace

std::string ZipWriter::LocalHeader(const Member& member,
                                   uint64_t alignment) const {
  std::string extra;
  if (member.size >= kIn64) {
    Put<uint16_t>(kZip64Tag, extra);
    Put<uint16_t>(16, extra);
    Put<uint64_t>(member.size, extra);
    Put<uint64_t>(member.size, extra);
  }
  std::string header;
  Put<uint32_t>(kLocalSignature, header);
  Put<uint16_t>(kVersion, header);
  PutCommon(0, Short(member.size), header);
  Put<uint16_t>(static_cast<uint16_t>(member.name.size()), header);
  // The padding's own header takes four bytes.
  const uint64_t end =
      member.offset + header.size() + 2 + member.name.size() + extra.size() + 4;
  const uint64_t padding = (alignment - end % alignment) % alignment;
  Put<uint16_t>(kPaddingTag, extra);
  Put<uint16_t>(static_cast<uint16_t>(padding), extra);
  extra.append(padding, 'Z');
  Put<uint16_t>(static_cast<uint16_t>(extra.size()), header);
  return absl::StrCat(header, member.name, extra);
}

absl::Status ZipWriter::AddMember(
    absl::string_view name, uint64_t size, uint64_t alignment,
    absl::FunctionRef<absl::Status(ByteSink&)> write) {
  Member member{std::string(name), size, 0, written_};
  HEARTH_RETURN_IF_ERROR(Append(LocalHeader(member, alignment)));
  MemberSink sink(*file_, size);
  HEARTH_RETURN_IF_ERROR(write(sink));
  HEARTH_RETURN_IF_ERROR(sink.Finish());
  written_ += size;
  member.crc32 = sink.crc32();
  std::string crc;
  Put<uint32_t>(member.crc32, crc);
  HEARTH_RETURN_IF_ERROR(file_->Write(
      member.offset + kCrcOffset,
      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(crc.data()),
                          crc.size())));
  members_.push_back(std::move(member));
  return absl::OkStatus();
}

absl::Status ZipWriter::AddText(absl::string_view name, absl::string_view text,
                                uint64_t alignment) {
  return AddMember(name, text.size(), alignment,
                   [&](ByteSink& sink) { return sink.AppendText(text); });
}

absl::Status ZipWriter::Finish() {
  std::string directory;
  for (const Member& member : members_) {
    std::string extra;
    if (member.size >= kIn64) {
      Put<uint64_t>(member.size, extra);
      Put<uint64_t>(member.size, extra);
    }
    if (member.offset >= kIn64) Put<uint64_t>(member.offset, extra);
    Put<uint32_t>(kCentralSignature, directory);
    Put<uint16_t>(kVersion, directory);
    Put<uint16_t>(kVersion, directory);
    PutCommon(member.crc32, Short(member.size), directory);
    Put<uint16_t>(static_cast<uint16_t>(member.name.size()), directory);
    Put<uint16_t>(static_cast<uint16_t>(extra.empty() ? 0 : extra.size() + 4),
                  directory);
    Put<uint16_t>(0, directory);  // Comment.
    Put<uint16_t>(0, directory);  // Disk.
    Put<uint16_t>(0, directory);  // Internal attributes.
    Put<uint32_t>(0, directory);  // External attributes.
    Put<uint32_t>(Short(member.offset), directory);
    directory += member.name;
    if (extra.empty()) continue;
    Put<uint16_t>(kZip64Tag, directory);
    Put<uint16_t>(static_cast<uint16_t>(extra.size()), directory);
    directory += extra;
  }
  const uint64_t start = written_;
  std::string end;
  if (start + directory.size() >= kIn64) {
    Put<uint32_t>(kZip64EndSignature, end);
    Put<uint64_t>(44, end);  // Size of the rest of this record.
    Put<uint16_t>(kVersion, end);
    Put<uint16_t>(kVersion, end);
    Put<uint32_t>(0, end);
    Put<uint32_t>(0, end);
    Put<uint64_t>(members_.size(), end);
    Put<uint64_t>(members_.size(), end);
    Put<uint64_t>(directory.size(), end);
    Put<uint64_t>(start, end);
    Put<uint32_t>(kZip64LocatorSignature, end);
    Put<uint32_t>(0, end);
    Put<uint64_t>(start + directory.size(), end);
    Put<uint32_t>(1, end);
  }
  Put<uint32_t>(kEndSignature, end);
  Put<uint16_t>(0, end);
  Put<uint16_t>(0, end);
  Put<uint16_t>(static_cast<uint16_t>(members_.size()), end);
  Put<uint16_t>(static_cast<uint16_t>(members_.size()), end);
  Put<uint32_t>(static_cast<uint32_t>(directory.size()), end);
  Put<uint32_t>(Short(start), end);
  Put<uint16_t>(0, end);
  HEARTH_RETURN_IF_ERROR(Append(directory));
  HEARTH_RETURN_IF_ERROR(Append(end));
  HEARTH_RETURN_IF_ERROR(file_->Sync());
  return file_->Close();
}

absl::Status ZipWriter::Append(absl::string_view text) {
  written_ += text.size();
  return file_->Append(absl::MakeConstSpan(
      reinterpret_cast<const std::byte*>(text.data()), text.size()));
}

}  // namespace hearth::ingest
