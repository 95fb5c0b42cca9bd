#ifndef HEARTH_ENGINE_IO_STREAM_WRITER_H_
#define HEARTH_ENGINE_IO_STREAM_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/aligned_memory.h"
#include "engine/io/file_system.h"

namespace hearth::io {

/// Writes a file from one end to the other, past the page cache, by large
/// aligned writes, and sums up its CRC32C. Single-owner.
class StreamWriter {
 public:
  /// Memory that a writer holds.
  static constexpr uint64_t kBufferBytes = 256 << 10;

  /// Reserves `size_bytes`: RESOURCE_EXHAUSTED if the disk has no room.
  static absl::StatusOr<std::unique_ptr<StreamWriter>> Create(
      FileSystem& files, const std::string& path, uint64_t size_bytes);

  absl::Status Append(absl::Span<const std::byte> bytes);

  /// Makes it durable, and closes it.
  absl::Status Finish();

  /// The CRC32C of all bytes appended.
  uint32_t crc() const { return crc_; }

 private:
  StreamWriter(std::unique_ptr<WritableFile> file, AlignedMemory buffer)
      : file_(std::move(file)), buffer_(std::move(buffer)) {}

  absl::Status Flush();

  const std::unique_ptr<WritableFile> file_;
  AlignedMemory buffer_;
  size_t filled_ = 0;
  uint32_t crc_ = 0;
};

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_STREAM_WRITER_H_
