#ifndef HEARTH_ENGINE_INGEST_PARSE_BYTE_STREAM_H_
#define HEARTH_ENGINE_INGEST_PARSE_BYTE_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

/// `status` with "`file`: `part`: " before its message, or "`file`: " where
/// `part` is empty. Errors of reading the file name it already and stay as
/// they are.
inline absl::Status Named(const absl::Status& status, absl::string_view file,
                          absl::string_view part = "") {
  if (absl::StartsWith(status.message(), absl::StrCat(file, ": "))) {
    return status;
  }
  return Annotate(status, part.empty() ? std::string(file)
                                       : absl::StrCat(file, ": ", part));
}

/// Bytes that are read once, from the first to the last. Single-owner.
class ByteStream {
 public:
  virtual ~ByteStream() = default;

  /// Fills `out` and returns its size; fewer bytes only where the stream ends,
  /// 0 from there on. An error stays: every later call returns it again.
  virtual absl::StatusOr<size_t> Read(absl::Span<std::byte> out) = 0;

  /// Path of the file, for messages.
  virtual const std::string& path() const = 0;
};

/// The bytes of `file` as they are.
absl::StatusOr<std::unique_ptr<ByteStream>> NewFileStream(
    std::unique_ptr<io::ReadableFile> file);

/// Whether `file` begins as gzip files do, whatever its name.
absl::StatusOr<bool> IsGzip(io::ReadableFile& file);

/// The decompressed bytes of a .gz file, members that follow one another
/// included; zero bytes after the last one are ignored, as gzip does. Memory
/// stays at about 100 KiB. Where the data is truncated, damaged (each member's
/// CRC and length are verified) or followed by something else, Read gives
/// DATA_LOSS with the offset in the compressed file; bytes of that member that
/// were given out before are then not to be trusted.
absl::StatusOr<std::unique_ptr<ByteStream>> NewGzipStream(
    std::unique_ptr<io::ReadableFile> file);

/// Largest window that is allowed unless told otherwise, as of the zstd tool.
inline constexpr uint64_t kMaxZstdWindowBytes = uint64_t{128} << 20;

/// Whether a file that begins with `head` begins as zstd files do.
bool IsZstd(absl::string_view head);

/// The decompressed bytes of a .zst file, frames that follow one another
/// included. Memory is the window of the file, at most `max_window_bytes` (a
/// power of two below is taken), and 256 KiB. Read gives DATA_LOSS, with the
/// offset in the compressed file, where the data is truncated, damaged or
/// followed by something else, and RESOURCE_EXHAUSTED for a larger window.
absl::StatusOr<std::unique_ptr<ByteStream>> NewZstdStream(
    std::unique_ptr<io::ReadableFile> file,
    uint64_t max_window_bytes = kMaxZstdWindowBytes);

/// UTF-8's mark, with which some programs begin a text.
inline constexpr absl::string_view kByteOrderMark = "\xef\xbb\xbf";

/// Whether `file` is compressed in one of the ways that NewTextStream reads.
absl::StatusOr<bool> IsCompressedText(io::ReadableFile& file);

/// The bytes of `file`: decompressed if they begin as those of a gzip or zstd
/// file do, whatever its name, else as they are. See gzip_file.h and
/// zstd_file.h.
absl::StatusOr<std::unique_ptr<ByteStream>> NewTextStream(
    std::unique_ptr<io::ReadableFile> file,
    uint64_t max_window_bytes = kMaxZstdWindowBytes);

/// OK if what begins with `head`, its first few KiB, may be text as ASCII and
/// UTF-8 have it. INVALID_ARGUMENT saying what it is instead: compressed in
/// another way, UTF-16, an archive, an array, or binary otherwise.
absl::Status CheckIsText(absl::string_view head);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_PARSE_BYTE_STREAM_H_
