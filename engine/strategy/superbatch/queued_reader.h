#ifndef HEARTH_ENGINE_STRATEGY_SUPERBATCH_QUEUED_READER_H_
#define HEARTH_ENGINE_STRATEGY_SUPERBATCH_QUEUED_READER_H_

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

namespace hearth::strategy {

/// A reader of rows with a queue of its own, which goes back to the pool with
/// it. Moves, but does not change; belongs to one thread at a time.
class QueuedReader {
 public:
  /// Memory for reads in flight, at most, with rows of so many bytes on a disk
  /// whose reads are aligned to 4 KiB or less.
  static uint64_t StagingBytes(int depth, uint64_t row_bytes) {
    return static_cast<uint64_t>(depth) *
           std::max(kReadBytes, row_bytes + (8 << 10));
  }

  /// With `depth` reads in flight, of 16 KiB each or more; rows are checked by
  /// `check`, if there is one, which outlives the reader. Errors as those of
  /// ReadQueues::Take and RowReader::Create.
  static absl::StatusOr<QueuedReader> Open(
      io::ReadQueues& queues, int depth, io::BlockDevice& device,
      const io::RowLayout& layout, const Clock& clock,
      const io::RowCheck* check = nullptr) {
    QueuedReader reader;
    HEARTH_ASSIGN_OR_RETURN(reader.queue_,
                            queues.Take(static_cast<size_t>(depth)));
    const uint64_t one =
        std::max(kReadBytes, io::RowStream::MinStagingBytes(device, layout));
    HEARTH_ASSIGN_OR_RETURN(
        reader.reader_,
        io::RowReader::Create(
            device, layout, *reader.queue_,
            {.staging_bytes = one * static_cast<uint64_t>(depth),
             .cost = {},
             .clock = &clock,
             .check = check}));
    return reader;
  }

  QueuedReader(QueuedReader&&) = default;
  QueuedReader& operator=(QueuedReader&&) = delete;

  io::RowReader& reader() { return *reader_; }

 private:
  static constexpr uint64_t kReadBytes = 16 << 10;

  QueuedReader() = default;

  io::ReadQueues::Handle queue_;
  // Destroyed first.
  std::unique_ptr<io::RowReader> reader_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_SUPERBATCH_QUEUED_READER_H_
