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
  /// Memory for reads in flight, at most, with rows of so many bytes on a disk
  /// whose reads are aligned to 4 KiB or less.
  static uint64_t StagingBytes(int depth, uint64_t row_bytes) {
    return static_cast<uint64_t>(depth) *
           std::max(kReadBytes, row_bytes + (8 << 10));
  }

  /// The longest read that it plans.
  static uint64_t LongestRead(const BlockDevice& device,
                              const RowLayout& layout) {
    return std::max(kReadBytes, RowStream::MinStagingBytes(device, layout));
  }

  /// With `depth` reads in flight, of 16 KiB each or more; rows are checked by
  /// `check`, if there is one, which outlives the reader. Errors as those of
  /// ReadQueues::Take and RowStream::Create.
  static absl::StatusOr<Queued> Open(ReadQueues& queues, int depth,
                                     BlockDevice& device,
                                     const RowLayout& layout,
                                     const Clock& clock,
                                     const RowCheck* check = nullptr) {
    Queued queued;
    HEARTH_ASSIGN_OR_RETURN(queued.queue_,
                            queues.Take(static_cast<size_t>(depth)));
    HEARTH_ASSIGN_OR_RETURN(
        queued.reader_,
        Reader::Create(device, layout, *queued.queue_,
                       {.staging_bytes = LongestRead(device, layout) *
                                         static_cast<uint64_t>(depth),
                        .cost = {},
                        .clock = &clock,
                        .check = check}));
    return queued;
  }

  Queued(Queued&&) = default;
  Queued& operator=(Queued&&) = delete;

  Reader& reader() { return *reader_; }

 private:
  static constexpr uint64_t kReadBytes = 16 << 10;

  Queued() = default;

  ReadQueues::Handle queue_;
  // Destroyed first.
  std::unique_ptr<Reader> reader_;
};

using QueuedReader = Queued<RowReader>;
using QueuedStream = Queued<RowStream>;

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_QUEUED_READER_H_
