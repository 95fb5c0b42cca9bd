#ifndef HEARTH_ENGINE_IO_ROW_READER_H_
#define HEARTH_ENGINE_IO_ROW_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/block_device.h"
#include "engine/io/coalesce.h"
#include "engine/io/read_queue.h"
#include "engine/io/row_stream.h"

namespace hearth::io {

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

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_ROW_READER_H_
