#ifndef HEARTH_ENGINE_STRATEGY_FORESIGHT_ROW_LOADER_H_
#define HEARTH_ENGINE_STRATEGY_FORESIGHT_ROW_LOADER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/io/read_queue.h"
#include "engine/io/row_reader.h"
#include "engine/store/dataset.h"
#include "engine/strategy/foresight/fetch_prices.h"
#include "engine/strategy/foresight/row_slots.h"

/// Rows read from the features themselves.

namespace hearth::strategy {

/// Everything that rows are read with. Outlives the loader.
struct RowSource {
  const store::Dataset& dataset;
  const store::StoredFeatures& features;
  io::ReadQueues& read_queues;
  const Clock& clock;
  /// Checks rows that are read one by one; null: they are not checked.
  const io::RowCheck* check = nullptr;
  /// Reads in flight.
  int io_depth = 64;
};

/// Reads rows one by one, through a queue of its own, or scans all of them.
/// Single-owner.
class RowLoader {
 public:
  explicit RowLoader(const RowSource& source) : source_(source) {}

  /// Memory that a loader takes at most, for lists of `most_rows`.
  static uint64_t MemoryBytes(int io_depth, int64_t row_bytes,
                              int64_t most_rows);

  /// Copies the rows of `nodes` to `to`, one after the other. Errors as
  /// io::RowReader::Read.
  absl::Status Read(absl::Span<const uint32_t> nodes, std::byte* to,
                    const std::stop_token& stop, io::ReadTally& tally);

  /// Copies rows to their slots (RowSlots::Write), by the cheaper of the two
  /// ways. Errors as Read, of scanning the features, and of the slots.
  absl::Status Load(absl::Span<const RowSlots::Placed> rows, RowSlots& slots,
                    const FetchPrices& prices, const std::stop_token& stop,
                    io::ReadTally& tally);

 private:
  absl::Status ReadEach(
      absl::FunctionRef<void(size_t position, const std::byte* row)> take,
      const std::stop_token& stop, io::ReadTally& tally);
  absl::Status Scan(absl::Span<const RowSlots::Placed> rows, RowSlots& slots,
                    const std::stop_token& stop, io::ReadTally& tally);

  const RowSource source_;
  std::optional<io::QueuedReader> reader_;
  std::vector<int64_t> rows_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_FORESIGHT_ROW_LOADER_H_
