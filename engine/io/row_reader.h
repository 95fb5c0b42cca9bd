#ifndef HEARTH_ENGINE_IO_ROW_READER_H_
#define HEARTH_ENGINE_IO_ROW_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>

#include "absl/functional/function_ref.h"
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
  /// Memory for reads in flight; at least RowReader::MinStagingBytes. With
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

/// The cost of reading rows; Read adds to it.
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

/// Reads rows of one file through one queue, keeping the queue as full as its
/// depth and the staging memory allow. Single-owner, with its queue.
class RowReader {
 public:
  /// Called once for each position of the list of rows, in any order; the row
  /// stays only during the call.
  using Arrived =
      absl::FunctionRef<void(size_t position, const std::byte* row)>;

  /// `device` and `queue` outlive the reader, which registers its memory with
  /// the queue. INVALID_ARGUMENT for rows without bytes or too little staging
  /// memory (naming what is needed), DATA_LOSS if the file ends before the
  /// last row, RESOURCE_EXHAUSTED if there is no memory.
  static absl::StatusOr<std::unique_ptr<RowReader>> Create(
      BlockDevice& device, const RowLayout& layout, ReadQueue& queue,
      const RowReaderOptions& options);

  /// The least staging memory that works: one row's longest read.
  static uint64_t MinStagingBytes(const BlockDevice& device,
                                  const RowLayout& layout);

  virtual ~RowReader() = default;

  /// Reads `rows`, in any order, duplicates once, and calls `arrived` for each
  /// as its read completes. Rows may have arrived before an error, which is:
  /// INVALID_ARGUMENT for a row that the file does not have (before anything is
  /// read), CANCELLED after a stop, the first failed read's status, or
  /// DATA_LOSS naming the row that does not pass the check, though it was read
  /// once more. Whatever it returns, nothing is in flight any more, unless the
  /// queue's Wait itself failed: then reader and queue are to be destroyed.
  /// REQUIRES: nothing of another reader is in flight in the queue.
  virtual absl::Status Read(absl::Span<const int64_t> rows, Arrived arrived,
                            std::stop_token stop, ReadTally& tally) = 0;

  /// The cost by which it plans reads: that of its options, but that none is
  /// longer than its staging memory lets.
  virtual ReadCost cost() const = 0;

  /// The resources that the kernel registered: file, staging memory.
  virtual Registration registration() const = 0;
};

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_ROW_READER_H_
