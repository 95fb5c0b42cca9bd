#ifndef HEARTH_ENGINE_STORE_ARRAY_STREAM_H_
#define HEARTH_ENGINE_STORE_ARRAY_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/aligned_memory.h"
#include "engine/io/file_system.h"
#include "engine/store/manifest.h"
#include "engine/store/scan_array.h"

namespace hearth::store {

/// The data of an array, from one end to the other, as a caller asks for it.
/// Read past the page cache in whole pages, wherever in the file the data
/// begins, and each block against its checksum: what does not match is read
/// once more, and is then DATA_LOSS naming file and block. Single-owner.
class ArrayStream {
 public:
  /// Memory that a stream holds, unless told, beside 4 bytes a block.
  static constexpr uint64_t kBufferBytes = (8 << 20) + (256 << 10);

  /// The array of the dataset in `folder`, read into a buffer of
  /// `buffer_bytes`. `files` outlives the stream. FAILED_PRECONDITION for
  /// blocks of more than an eighth of the buffer; CANCELLED after a stop.
  static absl::StatusOr<std::unique_ptr<ArrayStream>> Open(
      io::FileSystem& files, const std::string& folder, const ArrayFile& array,
      const std::stop_token& stop = {}, uint64_t buffer_bytes = kBufferBytes);

  /// The next bytes of the data: `most`, or as many as there are at hand; none
  /// at the end. They stay until the next call. If `most` is a multiple of an
  /// element's size, so are the bytes.
  absl::StatusOr<absl::Span<const std::byte>> Next(uint64_t most);

  /// Bytes of the data that were given out.
  uint64_t position() const { return given_ - array_.data_offset; }

  const std::string& path() const { return from_.file->path(); }

 private:
  ArrayStream(CheckedFile from, const ArrayFile& array,
              io::AlignedMemory memory)
      : from_(std::move(from)),
        array_(array),
        memory_(std::move(memory)),
        checked_(array.data_offset),
        given_(array.data_offset) {}

  absl::Status Refill();

  const CheckedFile from_;
  const ArrayFile array_;
  io::AlignedMemory memory_;
  // Places in the file: what memory_ begins with, a multiple of a page; where
  // the next read begins; the end of the blocks that were checked; the end of
  // what was given out.
  uint64_t base_ = 0;
  uint64_t read_ = 0;
  uint64_t checked_;
  uint64_t given_;
};

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_ARRAY_STREAM_H_
