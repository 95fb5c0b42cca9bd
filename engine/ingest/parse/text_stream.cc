#include "engine/ingest/parse/text_stream.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/parse/gzip_file.h"

namespace hearth::ingest {
namespace {

// A text has no zero byte at all; most other files have one soon.
constexpr size_t kMaxSearchedBytes = 4096;

/// What files of a kind begin with, and what is told of them.
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

// UTF-32 before UTF-16, whose mark it begins with.
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

/// Whether every second byte is zero, and no other, as in UTF-16 without a mark
/// of what is mostly ASCII.
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
