#ifndef HEARTH_ENGINE_IO_ROW_READER_H_
#define HEARTH_ENGINE_IO_ROW_READER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/io/block_device.h"
#include "engine/io/read_plan.h"
#include "engine/io/read_queue.h"

namespace hearth::io {

/// Tells right rows from damaged ones. Thread-safe.
class RowCheck {
 public:
  virtual ~RowCheck() = default;

  /// Whether `bytes` are those of row `row`. REQUIRES: a row of the file.
  virtual bool Matches(int64_t row, const std::byte* bytes) const = 0;
};

struct RowReaderOptions {
  /// Memory for reads in flight; at least RowStream::MinStagingBytes. With
  /// less than the queue's depth times the longest read, reads are shorter;
  /// with less than depth times one row's, fewer are in flight.
  uint64_t staging_bytes = 8 << 20;
  ReadCost cost = {};
  /// The clock by which waiting is measured; outlives the reader.
  const Clock* clock = &Clock::Real();
  /// Checks each row that arrives; null = rows are not checked. Outlives the
  /// reader.
  const RowCheck* check = nullptr;
};

/// The cost of reading rows; reading adds to it.
struct ReadTally {
  /// Rows delivered, duplicates too, and the bytes of the distinct ones.
  int64_t rows = 0;
  int64_t payload_bytes = 0;
  /// Bytes and requests asked of the disk for them, failed reads included.
  int64_t bytes_read = 0;
  int64_t requests = 0;
  /// In which nothing was left to do but to wait for the disk.
  double wait_seconds = 0;
};

/// Reads lists of rows of one file through one queue, several lists at a time,
/// and keeps the queue as full as its depth and the staging memory allow. Reads
/// start in the order of the lists, and a list is done when its own rows have
/// arrived: there is no pause between lists. Single-owner, with its queue.
class RowStream {
 public:
  /// Called once for each position of a list of rows, in any order; the row
  /// stays only during the call.
  using Arrived = std::function<void(size_t position, const std::byte* row)>;

  /// `device` and `queue` outlive the stream, which registers its memory with
  /// the queue. INVALID_ARGUMENT for rows without bytes or too little staging
  /// memory (naming what is needed), DATA_LOSS if the file ends before the
  /// last row, RESOURCE_EXHAUSTED if there is no memory.
  static absl::StatusOr<std::unique_ptr<RowStream>> Create(
      BlockDevice& device, const RowLayout& layout, ReadQueue& queue,
      const RowReaderOptions& options);

  /// The least staging memory that works: one row's longest read.
  static uint64_t MinStagingBytes(const BlockDevice& device,
                                  const RowLayout& layout);

  /// Waits for the reads in flight.
  virtual ~RowStream() = default;

  /// Plans the reads of `rows`, in any order, duplicates once; Advance makes
  /// them. `tally` outlives the list. INVALID_ARGUMENT for a row that the file
  /// does not have: there is no list then.
  virtual absl::Status Add(absl::Span<const int64_t> rows, Arrived arrived,
                           ReadTally& tally) = 0;

  /// Lists that were added and not taken off.
  virtual size_t num_lists() const = 0;

  /// Takes off the oldest list if it is done; false otherwise, or without one.
  virtual bool TakeOff() = 0;

  /// Planned reads, of all lists, whose rows have not arrived.
  virtual int64_t outstanding() const = 0;

  /// Starts as many reads as there is room for, waits until one at least has
  /// ended and hands its rows out. The time counts for the oldest list.
  /// REQUIRES: outstanding() > 0. After an error, which is the first failed
  /// read's, or DATA_LOSS naming a row that does not pass the check though it
  /// was read once more, nothing is left to do but to Abandon.
  virtual absl::Status Advance() = 0;

  /// Waits for the reads in flight and drops all lists. An error means that
  /// the queue's Wait itself failed: then stream and queue are to be destroyed.
  virtual absl::Status Abandon() = 0;

  /// The cost by which it plans reads: that of its options, but that none is
  /// longer than its staging memory lets.
  virtual ReadCost cost() const = 0;

  /// The resources that the kernel registered: file, staging memory.
  virtual Registration registration() const = 0;
};

/// Reads one list of rows after the other through a RowStream. Single-owner,
/// with its queue.
class RowReader {
 public:
  /// Called once for each position of the list of rows, in any order; the row
  /// stays only during the call.
  using Arrived =
      absl::FunctionRef<void(size_t position, const std::byte* row)>;

  /// As RowStream::Create.
  static absl::StatusOr<std::unique_ptr<RowReader>> Create(
      BlockDevice& device, const RowLayout& layout, ReadQueue& queue,
      const RowReaderOptions& options);

  /// Reads `rows`, in any order, duplicates once, and calls `arrived` for each
  /// as its read completes. Rows may have arrived before an error, which is:
  /// INVALID_ARGUMENT for a row that the file does not have (before anything is
  /// read), CANCELLED after a stop, the first failed read's status, or
  /// DATA_LOSS naming the row that does not pass the check, though it was read
  /// once more. Whatever it returns, nothing is in flight any more, unless the
  /// queue's Wait itself failed: then reader and queue are to be destroyed.
  /// REQUIRES: nothing of another reader is in flight in the queue.
  absl::Status Read(absl::Span<const int64_t> rows, Arrived arrived,
                    std::stop_token stop, ReadTally& tally);

  /// As those of RowStream.
  ReadCost cost() const { return stream_->cost(); }
  Registration registration() const { return stream_->registration(); }

 private:
  explicit RowReader(std::string path, std::unique_ptr<RowStream> stream);

  const std::string path_;
  const std::unique_ptr<RowStream> stream_;
};

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

#endif  // HEARTH_ENGINE_IO_ROW_READER_H_
