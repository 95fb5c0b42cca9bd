#include "engine/ingest/parse/byte_stream.h"

#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/numeric/bits.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/byte_size.h"
#include "engine/base/status.h"
#include "engine/ingest/parse/inflater.h"

namespace hearth::ingest {

namespace {

constexpr size_t kInputBytes = 64 << 10;
// Range of windows that zstd can be told to allow, as powers of two.
constexpr int kMinWindowLog = 10;
constexpr int kMaxWindowLog = 31;

class FileStream final : public ByteStream {
 public:
  FileStream(std::unique_ptr<io::ReadableFile> file, uint64_t begin,
             uint64_t end)
      : file_(std::move(file)),
        path_(begin == 0 ? file_->path()
                         : absl::StrCat(file_->path(), " after byte ", begin)),
        end_(end),
        offset_(begin) {}

  absl::StatusOr<size_t> Read(absl::Span<std::byte> out) override {
    HEARTH_RETURN_IF_ERROR(status_);
    const size_t count = std::min<uint64_t>(out.size(), end_ - offset_);
    status_ = file_->Read(offset_, out.first(count));
    HEARTH_RETURN_IF_ERROR(status_);
    offset_ += count;
    return count;
  }

  const std::string& path() const override { return path_; }

 private:
  const std::unique_ptr<io::ReadableFile> file_;
  const std::string path_;
  const uint64_t end_;
  uint64_t offset_;
  absl::Status status_;
};

class GzipStream final : public ByteStream {
 public:
  GzipStream(std::unique_ptr<io::ReadableFile> file, uint64_t size_bytes)
      : file_(std::move(file)),
        size_bytes_(size_bytes),
        inflater_(*file_, 0, size_bytes, Inflater::Format::kGzip) {}

  absl::StatusOr<size_t> Read(absl::Span<std::byte> out) override {
    size_t done = 0;
    while (status_.ok() && !over_ && done < out.size()) {
      const auto count = inflater_.Read(out.subspan(done));
      if (count.ok()) {
        done += *count;
        if (inflater_.ended()) status_ = NextMember();
      } else {
        status_ = count.status();
      }
      status_ = Named(status_, path());
    }
    HEARTH_RETURN_IF_ERROR(status_);
    return done;
  }

  const std::string& path() const override { return file_->path(); }

 private:
  absl::Status NextMember() {
    const uint64_t member_end = inflater_.input_offset();
    HEARTH_RETURN_IF_ERROR(inflater_.SkipZeros());
    const uint64_t next = inflater_.input_offset();
    over_ = next == size_bytes_;
    if (over_) return absl::OkStatus();
    if (next != member_end) {
      return absl::DataLossError(
          absl::StrCat("has something after its end, at byte ", next));
    }
    inflater_.StartStream();
    return absl::OkStatus();
  }

  const std::unique_ptr<io::ReadableFile> file_;
  const uint64_t size_bytes_;
  Inflater inflater_;
  bool over_ = false;
  absl::Status status_;
};

class ZstdStream final : public ByteStream {
 public:
  ZstdStream(std::unique_ptr<io::ReadableFile> file, uint64_t size_bytes,
             int window_log)
      : file_(std::move(file)),
        size_bytes_(size_bytes),
        window_log_(window_log),
        decoder_(ZSTD_createDStream()) {
    if (decoder_ == nullptr ||
        ZSTD_isError(ZSTD_DCtx_setParameter(decoder_, ZSTD_d_windowLogMax,
                                            window_log)) != 0) {
      status_ = OutOfMemory();
    }
  }

  ~ZstdStream() override { ZSTD_freeDStream(decoder_); }

  absl::StatusOr<size_t> Read(absl::Span<std::byte> out) override {
    ZSTD_outBuffer output = {out.data(), out.size(), 0};
    while (status_.ok() && output.pos < output.size) {
      status_ = Fetch();
      if (!status_.ok() || (input_.pos == input_.size && frame_ended_)) break;
      status_ = Step(output);
    }
    status_ = Named(status_, path());
    HEARTH_RETURN_IF_ERROR(status_);
    return output.pos;
  }

  const std::string& path() const override { return file_->path(); }

 private:
  static absl::Status OutOfMemory() {
    return absl::ResourceExhaustedError("no memory to decompress with");
  }

  /// Reads more of the file once all input is decompressed.
  absl::Status Fetch() {
    if (input_.pos < input_.size || fetched_ == size_bytes_) {
      return absl::OkStatus();
    }
    buffer_.resize(std::min<uint64_t>(kInputBytes, size_bytes_ - fetched_));
    HEARTH_RETURN_IF_ERROR(file_->Read(fetched_, absl::MakeSpan(buffer_)));
    fetched_ += buffer_.size();
    input_ = {buffer_.data(), buffer_.size(), 0};
    return absl::OkStatus();
  }

  absl::Status Step(ZSTD_outBuffer& output) {
    const bool input_is_over = input_.pos == input_.size;
    const size_t written = output.pos;
    const bool follows_frame = frame_ended_;
    const size_t hint = ZSTD_decompressStream(decoder_, &output, &input_);
    if (ZSTD_isError(hint) != 0) return ErrorOf(hint, follows_frame);
    frame_ended_ = hint == 0;
    if (frame_ended_) frame_end_ = input_offset();
    // Without new input the decoder may still return bytes that it holds.
    if (input_is_over && !frame_ended_ && output.pos == written) {
      return Damaged("is truncated");
    }
    return absl::OkStatus();
  }

  absl::Status ErrorOf(size_t result, bool follows_frame) const {
    switch (ZSTD_getErrorCode(result)) {
      case ZSTD_error_memory_allocation:
        return OutOfMemory();
      case ZSTD_error_frameParameter_windowTooLarge:
        return absl::ResourceExhaustedError(absl::StrCat(
            "was compressed with a window of more than ",
            FormatByteSize(uint64_t{1} << window_log_),
            ", which is what may be used to decompress it: a higher memory "
            "limit, or compression without --long and --ultra, makes it fit"));
      case ZSTD_error_prefix_unknown:
        if (!follows_frame) break;
        return absl::DataLossError(
            absl::StrCat("has something after its end, at byte ", frame_end_));
      default:
        break;
    }
    return Damaged(absl::StrCat("is damaged: ", ZSTD_getErrorName(result)));
  }

  absl::Status Damaged(absl::string_view problem) const {
    return absl::DataLossError(absl::StrCat(
        problem, ", at byte ", input_offset(), " of the compressed data"));
  }

  uint64_t input_offset() const { return fetched_ - input_.size + input_.pos; }

  const std::unique_ptr<io::ReadableFile> file_;
  const uint64_t size_bytes_;
  const int window_log_;
  ZSTD_DStream* const decoder_;
  std::vector<std::byte> buffer_;
  ZSTD_inBuffer input_ = {nullptr, 0, 0};
  /// Offset in the file after the input that was read.
  uint64_t fetched_ = 0;
  /// Whether the last frame is complete, and its end in the file.
  bool frame_ended_ = false;
  uint64_t frame_end_ = 0;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ByteStream>> NewFileStream(
    std::unique_ptr<io::ReadableFile> file) {
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file->Info());
  return std::make_unique<FileStream>(std::move(file), 0, info.size_bytes);
}

std::unique_ptr<ByteStream> NewRangeStream(
    std::unique_ptr<io::ReadableFile> file, uint64_t begin, uint64_t end) {
  return std::make_unique<FileStream>(std::move(file), begin, end);
}

absl::StatusOr<bool> IsGzip(io::ReadableFile& file) {
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file.Info());
  std::array<std::byte, 2> magic;
  if (info.size_bytes < magic.size()) return false;
  HEARTH_RETURN_IF_ERROR(file.Read(0, absl::MakeSpan(magic)));
  return magic[0] == std::byte{0x1f} && magic[1] == std::byte{0x8b};
}

absl::StatusOr<std::unique_ptr<ByteStream>> NewGzipStream(
    std::unique_ptr<io::ReadableFile> file) {
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file->Info());
  return std::make_unique<GzipStream>(std::move(file), info.size_bytes);
}

bool IsZstd(absl::string_view head) {
  if (head.size() < 4) return false;
  // Magic of a frame, or of a skippable frame, with which pzstd begins its
  // files.
  return absl::StartsWith(head, "\x28\xb5\x2f\xfd") ||
         ((head[0] & 0xf0) == 0x50 && head.substr(1, 3) == "\x2a\x4d\x18");
}

absl::StatusOr<std::unique_ptr<ByteStream>> NewZstdStream(
    std::unique_ptr<io::ReadableFile> file, uint64_t max_window_bytes) {
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file->Info());
  const int window_log =
      std::clamp(static_cast<int>(absl::bit_width(max_window_bytes)) - 1,
                 kMinWindowLog, kMaxWindowLog);
  return std::make_unique<ZstdStream>(std::move(file), info.size_bytes,
                                      window_log);
}

namespace {

// Text has no zero byte; most other files have one among their first bytes.
constexpr size_t kMaxSearchedBytes = 4096;

/// First bytes of a kind of files, and the message for such a file.
struct Signature {
  absl::string_view bytes;
  size_t offset;
  absl::string_view problem;
};

/// All bytes of a literal, zeros included.
template <size_t kSize>
constexpr absl::string_view Bytes(const char (&text)[kSize]) {
  return absl::string_view(text, kSize - 1);
}

// UTF-32 comes before UTF-16: the mark of UTF-16 is a prefix of UTF-32's.
constexpr Signature kSignatures[] = {
    {Bytes("\x1f\x8b"), 0, "is compressed by gzip twice; once is read"},
    {Bytes("\x28\xb5\x2f\xfd"), 0,
     "is compressed twice, the second time by zstd; once is read"},
    {Bytes("\xfd\x37zXZ\0"), 0,
     "is compressed by xz; gzip and zstd are read: decompress it first (xz "
     "-d)"},
    {Bytes("1AY&SY"), 4,
     "is compressed by bzip2; gzip and zstd are read: decompress it first "
     "(bzip2 -d)"},
    {Bytes("\x04\x22\x4d\x18"), 0,
     "is compressed by lz4; gzip and zstd are read: decompress it first (lz4 "
     "-d)"},
    {Bytes("LZIP\1"), 0,
     "is compressed by lzip; gzip and zstd are read: decompress it first (lzip "
     "-d)"},
    {Bytes("\x1f\x9d"), 0,
     "is compressed by compress; gzip and zstd are read: decompress it first "
     "(gzip -d)"},
    {Bytes("PK\3\4"), 0, "is a zip archive, not text: unpack it first"},
    {Bytes("PK\5\6"), 0, "is an empty zip archive"},
    {Bytes("7z\xbc\xaf\x27\x1c"), 0,
     "is a 7z archive, not text: unpack it first"},
    {Bytes("Rar!\x1a\x07"), 0, "is a rar archive, not text: unpack it first"},
    {Bytes("ustar"), 257,
     "is a tar archive, not text: unpack it first (tar -x)"},
    {Bytes("\xff\xfe\0\0"), 0,
     "is UTF-32 text; UTF-8 is read: convert it first (iconv -f UTF-32 -t "
     "UTF-8)"},
    {Bytes("\0\0\xfe\xff"), 0,
     "is UTF-32 text; UTF-8 is read: convert it first (iconv -f UTF-32 -t "
     "UTF-8)"},
    {Bytes("\xff\xfe"), 0,
     "is UTF-16 text; UTF-8 is read: convert it first (iconv -f UTF-16 -t "
     "UTF-8)"},
    {Bytes("\xfe\xff"), 0,
     "is UTF-16 text; UTF-8 is read: convert it first (iconv -f UTF-16 -t "
     "UTF-8)"},
    {Bytes("\x93NUMPY"), 0, "is a numpy array, not text"},
    {Bytes("\x89HDF\r\n"), 0, "is an HDF5 file, not text"},
    {Bytes("PAR1\x15"), 0, "is a Parquet file, not text"},
    {Bytes("ARROW1\0\0"), 0, "is an Arrow file, not text"},
    {Bytes("SQLite format 3\0"), 0, "is an SQLite database, not text"},
    {Bytes("%PDF-"), 0, "is a PDF file, not text"},
    {Bytes("\x80\x02"), 0, "is a pickle, not text"},
    {Bytes("\x80\x03"), 0, "is a pickle, not text"},
    {Bytes("\x80\x04"), 0, "is a pickle, not text"},
    {Bytes("\x80\x05"), 0, "is a pickle, not text"},
};

/// Whether exactly every second byte is zero: mostly ASCII text as UTF-16
/// without a mark.
bool IsUtf16(absl::string_view head) {
  const size_t count = std::min<size_t>(head.size(), 64) & ~size_t{1};
  if (count < 4) return false;
  const bool zero_first = head[0] == 0;
  for (size_t i = 0; i < count; ++i) {
    if ((head[i] == 0) != ((i % 2 == 0) == zero_first)) return false;
  }
  return true;
}

enum class Compression { kNone, kGzip, kZstd };

absl::StatusOr<Compression> CompressionOf(io::ReadableFile& file) {
  HEARTH_ASSIGN_OR_RETURN(const bool is_gzip, IsGzip(file));
  if (is_gzip) return Compression::kGzip;
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file.Info());
  std::string head(std::min<uint64_t>(info.size_bytes, 4), '\0');
  HEARTH_RETURN_IF_ERROR(file.Read(
      0,
      absl::MakeSpan(reinterpret_cast<std::byte*>(head.data()), head.size())));
  return IsZstd(head) ? Compression::kZstd : Compression::kNone;
}

}  // namespace

absl::StatusOr<bool> IsCompressedText(io::ReadableFile& file) {
  HEARTH_ASSIGN_OR_RETURN(const Compression compression, CompressionOf(file));
  return compression != Compression::kNone;
}

absl::StatusOr<std::unique_ptr<ByteStream>> NewTextStream(
    std::unique_ptr<io::ReadableFile> file, uint64_t max_window_bytes) {
  HEARTH_ASSIGN_OR_RETURN(const Compression compression, CompressionOf(*file));
  switch (compression) {
    case Compression::kNone:
      break;
    case Compression::kGzip:
      return NewGzipStream(std::move(file));
    case Compression::kZstd:
      return NewZstdStream(std::move(file), max_window_bytes);
  }
  return NewFileStream(std::move(file));
}

absl::Status CheckIsText(absl::string_view head) {
  for (const Signature& one : kSignatures) {
    if (head.size() < one.offset) continue;
    if (absl::StartsWith(head.substr(one.offset), one.bytes)) {
      return absl::InvalidArgumentError(one.problem);
    }
  }
  if (IsUtf16(head)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "looks like UTF-16 text; UTF-8 is read: convert it first (iconv -f "
        "UTF-16",
        head[0] == 0 ? "BE" : "LE", " -t UTF-8)"));
  }
  const size_t zero = head.substr(0, kMaxSearchedBytes).find('\0');
  if (zero == absl::string_view::npos) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("is binary data, not text: byte ", zero, " is zero"));
}

}  // namespace hearth::ingest
