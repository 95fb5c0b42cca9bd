#ifndef HEARTH_ENGINE_INGEST_PARSE_TEXT_STREAM_H_
#define HEARTH_ENGINE_INGEST_PARSE_TEXT_STREAM_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/ingest/parse/byte_stream.h"
#include "engine/ingest/parse/zstd_file.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

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

#endif  // HEARTH_ENGINE_INGEST_PARSE_TEXT_STREAM_H_
