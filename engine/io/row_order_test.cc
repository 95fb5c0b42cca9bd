#include "engine/io/row_order.h"

#include <algorithm>
#include <vector>

#include "engine/base/random.h"
#include "gtest/gtest.h"

namespace hearth::io {
namespace {

std::vector<RowAt> Numbered(const std::vector<int64_t>& rows) {
  std::vector<RowAt> numbered;
  for (size_t i = 0; i < rows.size(); ++i) numbered.push_back({rows[i], i});
  return numbered;
}

void ExpectSorted(const std::vector<int64_t>& rows) {
  std::vector<RowAt> expected = Numbered(rows);
  std::stable_sort(
      expected.begin(), expected.end(),
      [](const RowAt& a, const RowAt& b) { return a.row < b.row; });
  std::vector<RowAt> sorted = Numbered(rows);
  std::vector<RowAt> scratch;
  SortByRow(sorted, scratch);
  ASSERT_EQ(sorted.size(), expected.size());
  for (size_t i = 0; i < sorted.size(); ++i) {
    ASSERT_EQ(sorted[i].row, expected[i].row) << i << " of " << rows.size();
    ASSERT_EQ(sorted[i].position, expected[i].position) << i;
  }
}

TEST(SortByRowTest, SortsStablyWhateverTheNumberAndTheRange) {
  RandomStream random(1, RandomPurpose::kGenerator);
  for (const size_t count : {0, 1, 2, 127, 128, 129, 1000, 20000}) {
    for (const int bits : {1, 8, 9, 30, 47, 63}) {
      std::vector<int64_t> rows(count);
      for (int64_t& row : rows) {
        row = static_cast<int64_t>(random.Below(uint64_t{1} << bits));
      }
      ExpectSorted(rows);
    }
  }
}

TEST(SortByRowTest, LeavesWhatIsSortedAndReversesWhatIsReversed) {
  std::vector<int64_t> rows(1000);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = 1'000'000 + 3 * i;
  ExpectSorted(rows);
  std::reverse(rows.begin(), rows.end());
  ExpectSorted(rows);
  ExpectSorted(std::vector<int64_t>(1000, 7));
}

TEST(SortByRowTest, DiffersInOneHighDigitOnly) {
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < 500; ++i) rows.push_back(((i * 37) % 100) << 40);
  ExpectSorted(rows);
}

}  // namespace
}  // namespace hearth::io
