#include "engine/io/read_plan.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "absl/strings/str_cat.h"

namespace hearth::io {

namespace {

constexpr int kDigitBits = 8;
constexpr size_t kDigits = size_t{1} << kDigitBits;
// Fewer rows are sorted by comparing, which is faster then.
constexpr size_t kFewRows = 128;

bool Before(const RowAt& a, const RowAt& b) { return a.row < b.row; }

/// One pass: `from` in the order of the digit at `shift`, stably, into `to`.
void SortByDigit(const std::vector<RowAt>& from, int shift,
                 std::vector<RowAt>& to) {
  const auto digit = [shift](const RowAt& at) {
    return (static_cast<uint64_t>(at.row) >> shift) & (kDigits - 1);
  };
  std::array<size_t, kDigits> next{};
  for (const RowAt& at : from) ++next[digit(at)];
  size_t begin = 0;
  for (size_t& count : next) {
    const size_t end = begin + count;
    count = begin;
    begin = end;
  }
  for (const RowAt& at : from) to[next[digit(at)]++] = at;
}

}  // namespace

void SortByRow(std::vector<RowAt>& rows, std::vector<RowAt>& scratch) {
  if (rows.size() < kFewRows) {
    std::stable_sort(rows.begin(), rows.end(), Before);
    return;
  }
  uint64_t differing = 0;
  bool sorted = true;
  for (size_t i = 1; i < rows.size(); ++i) {
    differing |= static_cast<uint64_t>(rows[i].row ^ rows[0].row);
    sorted = sorted && rows[i - 1].row <= rows[i].row;
  }
  if (sorted) return;
  scratch.resize(rows.size());
  for (int shift = 0; shift < 64; shift += kDigitBits) {
    if (((differing >> shift) & (kDigits - 1)) == 0) continue;
    SortByDigit(rows, shift, scratch);
    rows.swap(scratch);
  }
}

// Rows are taken in the order of the file. Where the gap before a row costs
// more than a request, there is always a cut, and so every run of rows without
// such a gap is planned alone. A run that is not longer than the longest
// request is one read. In a longer one, with best(k) the least cost of its
// first k distinct rows,
//
//   best(k) = request + end(k - 1) + min over j of (best(j) - begin(j))
//
// where rows j .. k - 1 fit in one request. Begins and ends only grow, so the
// minimum is that of a sliding window, kept in a queue of candidates: linear.

namespace {

// Keeps sums of costs within 64 bits; no request costs as much.
constexpr uint64_t kMaxRequestCost = uint64_t{1} << 30;

/// The pages that rows lie in.
struct Pages {
  const RowLayout& layout;
  const uint64_t alignment;

  uint64_t Begin(int64_t row) const {
    return layout.RowOffset(row) & ~(alignment - 1);
  }
  uint64_t End(int64_t row) const {
    return (layout.RowOffset(row) + layout.StoredBytes(row) + alignment - 1) &
           ~(alignment - 1);
  }
};

class Planner {
 public:
  Planner(Pages pages, const ReadCost& cost, ReadPlan& plan)
      : pages_(pages),
        request_(static_cast<int64_t>(
            std::min(cost.request_bytes, kMaxRequestCost))),
        longest_(cost.max_request_bytes),
        plan_(plan),
        firsts_(plan.scratch.firsts) {}

  /// Plans all of plan.rows, which are sorted.
  void PlanAll() {
    const std::vector<RowAt>& rows = plan_.rows;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (i > 0 && rows[i].row == rows[i - 1].row) continue;
      if (i > 0 && Gap(rows[i - 1].row, rows[i].row) >= request_) PlanRun(i);
      firsts_.push_back(i);
      plan_.payload_bytes += pages_.layout.StoredBytes(rows[i].row);
    }
    if (!rows.empty()) PlanRun(rows.size());
  }

 private:
  /// Bytes between the pages of neighboring rows; negative if they share one.
  int64_t Gap(int64_t row, int64_t next) const {
    return static_cast<int64_t>(pages_.Begin(next) - pages_.End(row));
  }

  uint64_t Begin(size_t k) const {
    return pages_.Begin(plan_.rows[firsts_[k]].row);
  }
  uint64_t End(size_t k) const {
    return pages_.End(plan_.rows[firsts_[k]].row);
  }

  /// Plans the distinct rows in firsts_, which end before plan.rows[end].
  void PlanRun(size_t end) {
    const size_t count = firsts_.size();
    if (count == 1 || End(count - 1) - Begin(0) <= longest_) {
      AddRead(0, count, end);
    } else {
      firsts_.push_back(end);
      FindCuts(count);
      AddReads(count);
    }
    firsts_.clear();
  }

  void FindCuts(size_t count) {
    auto& [order, firsts, cost, cut, window] = plan_.scratch;
    // cost[j]: best(j) - begin(j). cut[k]: the j of best(k).
    cost.resize(count + 1);
    cut.resize(count + 1);
    window.resize(count);
    size_t head = 0, tail = 0;
    int64_t best = 0;
    for (size_t k = 1; k <= count; ++k) {
      const size_t j = k - 1;
      cost[j] = best - static_cast<int64_t>(Begin(j));
      while (tail > head && cost[window[tail - 1]] > cost[j]) --tail;
      window[tail++] = j;
      // A row that is too long alone stays.
      while (window[head] < j && End(j) - Begin(window[head]) > longest_) {
        ++head;
      }
      cut[k] = window[head];
      best = request_ + static_cast<int64_t>(End(j)) + cost[window[head]];
    }
  }

  /// Adds the reads between the cuts, which are known from the last to the
  /// first.
  void AddReads(size_t count) {
    const auto added = static_cast<ptrdiff_t>(plan_.reads.size());
    for (size_t k = count; k > 0; k = plan_.scratch.cut[k]) {
      AddRead(plan_.scratch.cut[k], k, firsts_[k]);
    }
    std::reverse(plan_.reads.begin() + added, plan_.reads.end());
  }

  /// Adds the read of the distinct rows [begin, end), which end before
  /// plan.rows[rows_end].
  void AddRead(size_t begin, size_t end, size_t rows_end) {
    const uint64_t length = End(end - 1) - Begin(begin);
    plan_.reads.push_back({.offset = Begin(begin),
                           .length = length,
                           .first_row = firsts_[begin],
                           .num_rows = rows_end - firsts_[begin]});
    plan_.read_bytes += length;
  }

  const Pages pages_;
  const int64_t request_;
  const uint64_t longest_;
  ReadPlan& plan_;
  std::vector<size_t>& firsts_;
};

absl::Status TakeRows(absl::Span<const int64_t> rows, const RowLayout& layout,
                      ReadPlan& plan) {
  if (layout.row_bytes == 0) {
    return absl::InvalidArgumentError("rows have no bytes");
  }
  plan.rows.resize(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0 || rows[i] >= layout.num_rows) {
      return absl::InvalidArgumentError(
          absl::StrCat("there is no row ", rows[i], " among ", layout.num_rows,
                       " (at position ", i, ")"));
    }
    plan.rows[i] = {rows[i], i};
  }
  return absl::OkStatus();
}

// Bytes of the longest read of one row of a table.
uint64_t LongestRead(uint64_t first_offset, uint32_t row_bytes,
                     uint32_t alignment) {
  // Rows begin at all multiples of the step within a page, up to a shift.
  const uint64_t step = std::gcd(row_bytes, alignment);
  const uint64_t latest = alignment - step + first_offset % step;
  return (latest + row_bytes + alignment - 1) / alignment * alignment;
}

}  // namespace

const RowTable& RowLayout::TableOf(int64_t row) const {
  const auto after = std::upper_bound(
      tables->begin() + 1, tables->end(), row,
      [](int64_t row, const RowTable& table) { return row < table.first_row; });
  return *(after - 1);
}

absl::Status Coalesce(absl::Span<const int64_t> rows, const RowLayout& layout,
                      uint32_t alignment, const ReadCost& cost,
                      ReadPlan& plan) {
  plan.rows.clear();
  plan.reads.clear();
  plan.scratch.firsts.clear();
  plan.payload_bytes = 0;
  plan.read_bytes = 0;
  absl::Status status = TakeRows(rows, layout, plan);
  if (!status.ok()) {
    plan.rows.clear();
    return status;
  }
  SortByRow(plan.rows, plan.scratch.order);
  Planner({layout, alignment}, cost, plan).PlanAll();
  return absl::OkStatus();
}

uint64_t LongestRowRead(const RowLayout& layout, uint32_t alignment) {
  if (layout.tables == nullptr) {
    return LongestRead(layout.first_offset, layout.row_bytes, alignment);
  }
  uint64_t longest = 0;
  for (const RowTable& table : *layout.tables) {
    longest = std::max(
        longest, LongestRead(table.first_offset, table.row_bytes, alignment));
  }
  return longest;
}

}  // namespace hearth::io
