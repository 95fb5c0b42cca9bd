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

/// Tells intact rows from damaged rows. Thread-safe.
class RowCheck {
 public:
  virtual ~RowCheck() = default;

  /// Whether `bytes` is row `row` undamaged. REQUIRES: the file has the row.
  virtual bool Matches(int64_t row, const std::byte* bytes) const = 0;
};

struct RowReaderOptions {
  /// Memory for reads in flight; at least RowStream::MinStagingBytes. With less
  /// than the queue's depth times the longest read, reads are shorter; with
  /// less than the depth times the longest read of one row, fewer are in
  /// flight.
  uint64_t staging_bytes = 8 << 20;
  ReadCost cost = {};
  /// Clock that times waiting; outlives the reader.
  const Clock* clock = &Clock::Real();
  /// Checks each row that arrives; null = rows are not checked. Outlives the
  /// reader.
  const RowCheck* check = nullptr;
};

/// Totals of reading rows; reading adds to them.
struct ReadTally {
  /// Rows delivered, duplicates included, and bytes of the distinct rows.
  int64_t rows = 0;
  int64_t payload_bytes = 0;
  /// Bytes and requests asked of the disk, failed reads included.
  int64_t bytes_read = 0;
  int64_t requests = 0;
  /// Seconds spent waiting for the disk with nothing else to do.
  double wait_seconds = 0;

  /// Adds one read that the caller has waited for; nothing for 0 bytes.
  void AddRead(uint64_t bytes, double seconds) {
    if (bytes == 0) return;
    bytes_read += static_cast<int64_t>(bytes);
    ++requests;
    wait_seconds += seconds;
  }
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

  /// The least staging memory, in bytes: the longest read of one row.
  static uint64_t MinStagingBytes(const BlockDevice& device,
                                  const RowLayout& layout);

  /// Waits for the reads in flight.
  virtual ~RowStream() = default;

  /// Adds a list of rows, in any order, and plans its reads, one for
  /// duplicates; Advance makes them. `tally` outlives the list.
  /// INVALID_ARGUMENT, adding no list, for a row that the file does not have.
  virtual absl::Status Add(absl::Span<const int64_t> rows, Arrived arrived,
                           ReadTally& tally) = 0;

  /// Number of lists that were added and not taken off.
  virtual size_t num_lists() const = 0;

  /// Takes off the oldest list if it is done; false otherwise, or without one.
  virtual bool TakeOff() = 0;

  /// Number of planned reads, of all lists, whose rows have not arrived.
  virtual int64_t outstanding() const = 0;

  /// Starts as many reads as fit, waits until at least one has ended and hands
  /// out its rows. The wait counts for the oldest list. REQUIRES: outstanding()
  /// > 0. Returns the error of the first failed read, or DATA_LOSS naming a row
  /// that failed its check twice; after an error only Abandon may be called.
  virtual absl::Status Advance() = 0;

  /// Waits for the reads in flight and drops all lists. An error means that the
  /// queue's Wait itself failed: then destroy stream and queue.
  virtual absl::Status Abandon() = 0;

  /// Cost by which the stream plans reads: RowReaderOptions::cost, with
  /// max_request_bytes limited by the staging memory.
  virtual ReadCost cost() const = 0;

  /// Resources that the kernel has registered: file, staging memory.
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
  /// as its read completes. Errors: INVALID_ARGUMENT for a row that the file
  /// does not have (before anything is read), CANCELLED after a stop, the
  /// status of the first failed read, or DATA_LOSS naming a row that failed its
  /// check twice; some rows may have arrived before an error. Nothing is in
  /// flight on return, unless the queue's Wait itself failed: then destroy
  /// reader and queue. REQUIRES: nothing of another reader is in flight in the
  /// queue.
  absl::Status Read(absl::Span<const int64_t> rows, Arrived arrived,
                    std::stop_token stop, ReadTally& tally);

  /// As RowStream::cost and RowStream::registration.
  ReadCost cost() const { return stream_->cost(); }
  Registration registration() const { return stream_->registration(); }

 private:
  explicit RowReader(std::string path, std::unique_ptr<RowStream> stream);

  const std::string path_;
  const std::unique_ptr<RowStream> stream_;
};

/// A RowReader or RowStream with a queue of its own, which goes back to the
/// pool when this is destroyed. Single-owner; movable.
template <typename Reader>
class Queued {
 public:
  /// The longest read of rows in random order, unless a single row is longer.
  static constexpr uint64_t kReadBytes = 16 << 10;

  /// The most memory for reads in flight, in bytes, for rows of `row_bytes` on
  /// a disk whose alignment is 4 KiB or less.
  static uint64_t StagingBytes(int depth, uint64_t row_bytes,
                               uint64_t read_bytes = kReadBytes) {
    return static_cast<uint64_t>(depth) *
           std::max(read_bytes, row_bytes + (8 << 10));
  }

  /// Bytes of the longest read that is planned.
  static uint64_t LongestRead(const BlockDevice& device,
                              const RowLayout& layout,
                              uint64_t read_bytes = kReadBytes) {
    return std::max(read_bytes, RowStream::MinStagingBytes(device, layout));
  }

  /// Opens a reader with `depth` reads in flight, none longer than `read_bytes`
  /// or one row; `check`, unless null, checks rows and outlives the reader.
  /// Errors as of ReadQueues::Take and RowStream::Create.
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
  // Declared after the queue, so that it is destroyed first.
  std::unique_ptr<Reader> reader_;
};

using QueuedReader = Queued<RowReader>;
using QueuedStream = Queued<RowStream>;

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_ROW_READER_H_
