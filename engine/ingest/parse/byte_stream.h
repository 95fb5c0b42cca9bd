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

/// Bytes that are read in order, once: of a file, plain or decompressed (gzip,
/// zstd), and a check that a file is text. A stream belongs to one thread.

namespace hearth::ingest {

/// `status` with "`file`: `part`: " before its message, or "`file`: " if `part`
/// is empty. Errors of reading `file` already begin with its path and are
/// returned unchanged.
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

  /// Fills `out` and returns the number of bytes: fewer than out.size() only at
  /// the end of the stream, and 0 after it. After an error every later call
  /// returns that error.
  virtual absl::StatusOr<size_t> Read(absl::Span<std::byte> out) = 0;

  /// Path of the file, for messages.
  virtual const std::string& path() const = 0;
};

/// Streams the bytes of `file` unchanged.
absl::StatusOr<std::unique_ptr<ByteStream>> NewFileStream(
    std::unique_ptr<io::ReadableFile> file);

/// Streams the bytes `begin` .. `end` - 1 of `file`. Its path() tells where it
/// begins: "PATH after byte 4096". REQUIRES: the file has them.
std::unique_ptr<ByteStream> NewRangeStream(
    std::unique_ptr<io::ReadableFile> file, uint64_t begin, uint64_t end);

/// Whether the bytes of `file` begin like a gzip file; its name does not
/// matter.
absl::StatusOr<bool> IsGzip(io::ReadableFile& file);

/// Decompresses a .gz file with all of its members in about 100 KiB of memory;
/// ignores zero bytes after the last member, as gzip does. Read returns
/// DATA_LOSS, with the offset in the compressed file, if the data is truncated,
/// damaged (CRC and length of each member are verified) or followed by anything
/// else; bytes of a damaged member that were returned before are not to be
/// trusted.
absl::StatusOr<std::unique_ptr<ByteStream>> NewGzipStream(
    std::unique_ptr<io::ReadableFile> file);

/// Default for the largest window: the limit of the zstd tool.
inline constexpr uint64_t kMaxZstdWindowBytes = uint64_t{128} << 20;

/// Whether a file that begins with `head` is a zstd file.
bool IsZstd(absl::string_view head);

/// Decompresses a .zst file with all of its frames, in 256 KiB of memory and
/// the file's window. The window may be at most `max_window_bytes`, rounded
/// down to a power of two. Read returns DATA_LOSS, with the offset in the
/// compressed file, if the data is truncated, damaged or followed by anything
/// else; RESOURCE_EXHAUSTED for a larger window.
absl::StatusOr<std::unique_ptr<ByteStream>> NewZstdStream(
    std::unique_ptr<io::ReadableFile> file,
    uint64_t max_window_bytes = kMaxZstdWindowBytes);

/// UTF-8's byte order mark, with which some programs begin a text.
inline constexpr absl::string_view kByteOrderMark = "\xef\xbb\xbf";

/// Whether NewTextStream would decompress `file`.
absl::StatusOr<bool> IsCompressedText(io::ReadableFile& file);

/// Streams a text: decompressed if its first bytes are those of a gzip or zstd
/// file (NewGzipStream, NewZstdStream), otherwise unchanged. The name of the
/// file does not matter.
absl::StatusOr<std::unique_ptr<ByteStream>> NewTextStream(
    std::unique_ptr<io::ReadableFile> file,
    uint64_t max_window_bytes = kMaxZstdWindowBytes);

/// INVALID_ARGUMENT if a file that begins with `head`, its first few KiB, is no
/// ASCII or UTF-8 text. The message says what the file is: compressed by
/// another program, UTF-16, an archive, an array, or other binary data.
absl::Status CheckIsText(absl::string_view head);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_PARSE_BYTE_STREAM_H_
