#ifndef HEARTH_ENGINE_INGEST_PARSE_BYTE_STREAM_H_
#define HEARTH_ENGINE_INGEST_PARSE_BYTE_STREAM_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

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

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_PARSE_BYTE_STREAM_H_
