#ifndef HEARTH_ENGINE_INGEST_PARSE_GZIP_FILE_H_
#define HEARTH_ENGINE_INGEST_PARSE_GZIP_FILE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/ingest/parse/byte_stream.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

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

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_PARSE_GZIP_FILE_H_
