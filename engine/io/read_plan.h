#ifndef HEARTH_ENGINE_IO_READ_PLAN_H_
#define HEARTH_ENGINE_IO_READ_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace hearth::io {

/// A row, and its position in the list of rows asked for.
struct RowAt {
  int64_t row = 0;
  size_t position = 0;
};

/// Sorts by row, keeping the order of equal rows. Rows are not negative.
/// `scratch` is memory that the caller keeps for the next call. Linear: a radix
/// sort over the bits that differ from row to row.
void SortByRow(std::vector<RowAt>& rows, std::vector<RowAt>& scratch);

/// Rows of one size, one after the other on a device, or in stripes: a part of
/// a RowLayout.
struct RowTable {
  /// Number of the table's first row among the rows of all tables.
  int64_t first_row = 0;
  int64_t num_rows = 0;
  /// Offset of the table's first row; any alignment.
  uint64_t first_offset = 0;
  /// Bytes of a row as it is stored.
  uint32_t row_bytes = 0;
  /// Converts a stored row to a row as readers hand it out,
  /// RowLayout::row_bytes long; null: rows are handed out as stored.
  std::function<void(const std::byte* stored, std::byte* row)> convert =
      nullptr;
  /// Rows lie in stripes of 2^log2_stripe_rows rows (NewStripedDevice), with
  /// `stripe_gap_bytes` between two stripes; by default all are in one stripe.
  int log2_stripe_rows = 63;
  uint64_t stripe_gap_bytes = 0;

  uint64_t RowOffset(int64_t row) const {
    const auto number = static_cast<uint64_t>(row - first_row);
    return first_offset + number * row_bytes +
           (number >> log2_stripe_rows) * stripe_gap_bytes;
  }
};

/// Rows of one size, one after the other on a device; or rows of several
/// tables, which readers hand out in one size.
struct RowLayout {
  /// Offset of row 0, if `tables` is null; any alignment.
  uint64_t first_offset = 0;
  /// Bytes of a row as readers hand it out.
  uint32_t row_bytes = 0;
  int64_t num_rows = 0;
  /// The tables, in the order of their rows and of their offsets; null: all
  /// rows are stored as they are handed out, from first_offset on. Tables lie
  /// further apart than any request is long.
  std::shared_ptr<const std::vector<RowTable>> tables = nullptr;

  /// The table of a row. REQUIRES: `tables` is not null and has the row.
  const RowTable& TableOf(int64_t row) const;

  /// Offset at which a row begins.
  uint64_t RowOffset(int64_t row) const {
    if (tables != nullptr) return TableOf(row).RowOffset(row);
    return first_offset + static_cast<uint64_t>(row) * row_bytes;
  }

  /// Bytes of a row as it is stored.
  uint32_t StoredBytes(int64_t row) const {
    return tables != nullptr ? TableOf(row).row_bytes : row_bytes;
  }
};

/// The cost of reads: a request takes as much time as reading `request_bytes`
/// bytes, so that a shorter gap is cheaper read than skipped.
struct ReadCost {
  /// The default fits a disk of 100,000 reads/s and 1.5 GB/s.
  uint64_t request_bytes = 16 << 10;
  /// No read is longer, unless a single row is.
  uint64_t max_request_bytes = 128 << 10;
};

/// One aligned read of rows [first_row, first_row + num_rows) of a plan.
struct PlannedRead {
  uint64_t offset = 0;
  uint64_t length = 0;
  size_t first_row = 0;
  size_t num_rows = 0;
};

/// The most memory, in bytes, that a plan takes for each row asked for.
inline constexpr uint64_t kPlanBytesPerRow = 128;

/// Reads that cover a set of rows. A plan that is reused soon allocates
/// nothing.
struct ReadPlan {
  /// All rows asked for, duplicates too, in the order of the file.
  std::vector<RowAt> rows;
  /// In the order of the file. No byte is read twice, except a page that two
  /// neighboring rows share where one read of both rows would be longer than
  /// max_request_bytes.
  std::vector<PlannedRead> reads;
  /// Bytes of the distinct rows as they are stored, and bytes of all reads; the
  /// difference is waste.
  uint64_t payload_bytes = 0;
  uint64_t read_bytes = 0;

  uint64_t waste_bytes() const { return read_bytes - payload_bytes; }

  /// Memory of the planning, kept for the next plan.
  struct Scratch {
    std::vector<RowAt> order;
    std::vector<size_t> firsts;
    std::vector<int64_t> cost;
    std::vector<size_t> cut;
    std::vector<size_t> window;
  } scratch;
};

/// Replaces `plan` by the cheapest plan: rows on one page are read together,
/// and neighboring rows with the gap between them where that costs less than
/// another request. `rows` come in any order. Every read begins and ends on a
/// multiple of `alignment` (a power of two) and holds its rows whole. Linear in
/// the number of rows. A pure function. INVALID_ARGUMENT for a row that the
/// layout does not have, or rows of 0 bytes.
absl::Status Coalesce(absl::Span<const int64_t> rows, const RowLayout& layout,
                      uint32_t alignment, const ReadCost& cost, ReadPlan& plan);

/// Length in bytes of the longest aligned read of one row.
uint64_t LongestRowRead(const RowLayout& layout, uint32_t alignment);

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_READ_PLAN_H_
