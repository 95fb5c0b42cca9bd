#include "engine/io/row_order.h"

#include <algorithm>
#include <array>

namespace hearth::io {
namespace {

constexpr int kDigitBits = 8;
constexpr size_t kDigits = size_t{1} << kDigitBits;
// Below, counting digits takes longer than comparing.
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

}  // namespace hearth::io
