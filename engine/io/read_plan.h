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

/// A row, and where it stood in the list of rows asked for.
struct RowAt {
  int64_t row = 0;
  size_t position = 0;
};

/// Sorts by row, keeping the order of equal ones. Rows are not negative.
/// `scratch` is memory that the caller keeps. Linear: a radix sort over the
/// bits that differ from row to row.
void SortByRow(std::vector<RowAt>& rows, std::vector<RowAt>& scratch);

/// Rows of one size, one after the other on a device, or stripes of such rows:
/// a part of a RowLayout.
struct RowTable {
  /// The number of its first row among those of all tables.
  int64_t first_row = 0;
  int64_t num_rows = 0;
  /// Where its first row begins; any alignment.
  uint64_t first_offset = 0;
  /// Bytes of a row as it is stored.
  uint32_t row_bytes = 0;
  /// Writes the row that readers hand out, RowLayout::row_bytes long, for a
  /// stored one; null: they are the same.
  std::function<void(const std::byte* stored, std::byte* row)> convert =
      nullptr;
  /// Rows come in stripes of 2^log2_stripe_rows (striped_device.h), with
  /// `stripe_gap_bytes` between two; by default all are in one.
  int log2_stripe_rows = 63;
  uint64_t stripe_gap_bytes = 0;

  uint64_t RowOffset(int64_t row) const {
    const auto number = static_cast<uint64_t>(row - first_row);
    return first_offset + number * row_bytes +
           (number >> log2_stripe_rows) * stripe_gap_bytes;
  }
};

/// Rows of one size, one after the other on a device; or those of several
/// tables, which readers hand out as if they were of one size.
struct RowLayout {
  /// Where row 0 begins, if there is a single table; any alignment.
  uint64_t first_offset = 0;
  /// Bytes of a row as readers hand it out.
  uint32_t row_bytes = 0;
  int64_t num_rows = 0;
  /// The tables, where there are several, in the order of their rows and of
  /// their offsets; null: all rows are stored as they are handed out, from
  /// first_offset on. Two tables lie further apart than any request is long.
  std::shared_ptr<const std::vector<RowTable>> tables = nullptr;

  /// The table of a row. REQUIRES: there are tables, and the row is theirs.
  const RowTable& TableOf(int64_t row) const;

  /// Where a row begins.
  uint64_t RowOffset(int64_t row) const {
    if (tables != nullptr) return TableOf(row).RowOffset(row);
    return first_offset + static_cast<uint64_t>(row) * row_bytes;
  }

  /// Bytes of a row as it is stored.
  uint32_t StoredBytes(int64_t row) const {
    return tables != nullptr ? TableOf(row).row_bytes : row_bytes;
  }
};

/// The cost of reads: a request costs as much time as `request_bytes` bytes, so
/// that a gap of fewer is cheaper read than skipped.
struct ReadCost {
  /// The default fits a disk of 100,000 reads/s and 1.5 GB/s.
  uint64_t request_bytes = 16 << 10;
  /// No read is longer, unless one row alone takes more.
  uint64_t max_request_bytes = 128 << 10;
};

/// One aligned read of rows [first_row, first_row + num_rows) of a plan.
struct PlannedRead {
  uint64_t offset = 0;
  uint64_t length = 0;
  size_t first_row = 0;
  size_t num_rows = 0;
};

/// The most memory that a plan takes for each row asked for.
inline constexpr uint64_t kPlanBytesPerRow = 128;

/// Reads that cover a set of rows. Reused, it allocates nothing in the long
/// run.
struct ReadPlan {
  /// All rows asked for, duplicates too, in the order of the file.
  std::vector<RowAt> rows;
  /// In the order of the file. No byte is read twice, except that the page
  /// which two neighboring rows share is read with both where one read of both
  /// would be longer than max_request_bytes.
  std::vector<PlannedRead> reads;
  /// Bytes of the distinct rows as they are stored; bytes read. The difference
  /// is waste.
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

/// Replaces `plan` by the cheapest one: rows on one page are read together, and
/// neighbors with the gap between them where that costs less than another
/// request. `rows` come in any order. Every read begins and ends on a multiple
/// of `alignment` (a power of two) and holds its rows whole. Linear in the
/// number of rows. A pure function. INVALID_ARGUMENT for a row that the layout
/// does not have, or rows without bytes.
absl::Status Coalesce(absl::Span<const int64_t> rows, const RowLayout& layout,
                      uint32_t alignment, const ReadCost& cost, ReadPlan& plan);

/// Bytes of the longest read of one row, wherever the row lies.
uint64_t LongestRowRead(const RowLayout& layout, uint32_t alignment);

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_READ_PLAN_H_
