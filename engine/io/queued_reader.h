#ifndef HEARTH_ENGINE_IO_QUEUED_READER_H_
#define HEARTH_ENGINE_IO_QUEUED_READER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "engine/base/clock.h"
#include "engine/base/status_macros.h"
#include "engine/io/block_device.h"
#include "engine/io/coalesce.h"
#include "engine/io/read_queues.h"
#include "engine/io/row_reader.h"
#include "engine/io/row_stream.h"

namespace hearth::io {

/// A RowReader or RowStream with a queue of its own, which goes back to the
/// pool with it. Moves, but does not change; belongs to one thread at a time.
template <typename Reader>
class Queued {
 public:
  /// Reads of rows that lie anywhere are no longer, unless one row takes more.
  static constexpr uint64_t kReadBytes = 16 << 10;

  /// Memory for reads in flight, at most, with rows of so many bytes on a disk
  /// whose reads are aligned to 4 KiB or less.
  static uint64_t StagingBytes(int depth, uint64_t row_bytes,
                               uint64_t read_bytes = kReadBytes) {
    return static_cast<uint64_t>(depth) *
           std::max(read_bytes, row_bytes + (8 << 10));
  }

  /// The longest read that it plans.
  static uint64_t LongestRead(const BlockDevice& device,
                              const RowLayout& layout,
                              uint64_t read_bytes = kReadBytes) {
    return std::max(read_bytes, RowStream::MinStagingBytes(device, layout));
  }

  /// With `depth` reads in flight, none longer than `read_bytes` or one row's;
  /// rows are checked by `check`, if there is one, which outlives the reader.
  /// Errors as those of ReadQueues::Take and RowStream::Create.
  static absl::StatusOr<Queued> Open(ReadQueues& queues, int depth,
                                     BlockDevice& device,
                                     const RowLayout& layout,
                                     const Clock& clock,
                                     const RowCheck* check = nullptr,
                                     uint64_t read_bytes = kReadBytes) {
    Queued queued;
    const uint64_t longest = LongestRead(device, layout, read_bytes);
    HEARTH_ASSIGN_OR_RETURN(queued.queue_,
                            queues.Take(static_cast<size_t>(depth)));
    HEARTH_ASSIGN_OR_RETURN(
        queued.reader_,
        Reader::Create(device, layout, *queued.queue_,
                       {.staging_bytes = longest * static_cast<uint64_t>(depth),
                        .cost = {.max_request_bytes = longest},
                        .clock = &clock,
                        .check = check}));
    return queued;
  }

  Queued(Queued&&) = default;
  Queued& operator=(Queued&&) = delete;

  Reader& reader() { return *reader_; }

 private:
  Queued() = default;

  ReadQueues::Handle queue_;
  // Destroyed first.
  std::unique_ptr<Reader> reader_;
};

using QueuedReader = Queued<RowReader>;
using QueuedStream = Queued<RowStream>;

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_QUEUED_READER_H_
