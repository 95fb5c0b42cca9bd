#ifndef HEARTH_ENGINE_INGEST_PARSE_ZSTD_FILE_H_
#define HEARTH_ENGINE_INGEST_PARSE_ZSTD_FILE_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/ingest/parse/byte_stream.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

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

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_PARSE_ZSTD_FILE_H_
