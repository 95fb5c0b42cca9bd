#ifndef HEARTH_ENGINE_IO_ROW_STREAM_H_
#define HEARTH_ENGINE_IO_ROW_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/io/block_device.h"
#include "engine/io/coalesce.h"
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

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_ROW_STREAM_H_
