#ifndef HEARTH_ENGINE_INGEST_PARSE_PICKLE_INPUT_H_
#define HEARTH_ENGINE_INGEST_PARSE_PICKLE_INPUT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

/// Reads a pickle's bytes in order, 64 KiB at a time. Single-owner.
class PickleInput {
 public:
  /// From `begin` to at most `limit` bytes after it. `file` must outlive this.
  static absl::StatusOr<PickleInput> Open(io::ReadableFile& file,
                                          uint64_t begin, uint64_t limit);

  /// Offset in the file of the next byte.
  uint64_t position() const { return next_ - (buffer_.size() - used_); }

  /// DATA_LOSS where the file ends, RESOURCE_EXHAUSTED at the limit.
  absl::StatusOr<uint8_t> TakeByte();
  /// A little-endian number of `count` <= 8 bytes.
  absl::StatusOr<uint64_t> TakeNumber(size_t count);
  /// Checked against the file's size before memory is taken.
  absl::StatusOr<std::string> TakeBytes(uint64_t count);
  /// Up to a newline, which is taken and left out; at most 256 bytes.
  absl::StatusOr<std::string> TakeLine();

 private:
  PickleInput(io::ReadableFile& file, uint64_t begin, uint64_t end,
              uint64_t file_size)
      : file_(&file), next_(begin), end_(end), file_size_(file_size) {}

  absl::Status CheckLeft(uint64_t count) const;
  absl::Status Fill();

  io::ReadableFile* file_;
  std::vector<std::byte> buffer_;
  size_t used_ = 0;
  /// Offset in the file after the buffer.
  uint64_t next_;
  uint64_t end_;
  uint64_t file_size_;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_PARSE_PICKLE_INPUT_H_
