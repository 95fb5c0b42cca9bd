#include "engine/strategy/diskgnn/layout/radix_sort.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "engine/base/random.h"
#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

using Entry = std::pair<int64_t, int32_t>;

TEST(RadixSortTest, SortsAsStableSortDoes) {
  RandomStream random(1, RandomPurpose::kGenerator);
  std::vector<Entry> scratch;
  for (const size_t size : {0, 1, 2, 100, 5000}) {
    for (const uint64_t below : {uint64_t{1}, uint64_t{7}, uint64_t{2048},
                                 uint64_t{1} << 33, uint64_t{INT64_MAX}}) {
      std::vector<Entry> values;
      for (size_t i = 0; i < size; ++i) {
        values.emplace_back(static_cast<int64_t>(random.Below(below)),
                            static_cast<int32_t>(i));
      }
      std::vector<Entry> expected = values;
      std::sort(expected.begin(), expected.end());
      RadixSort(values, scratch,
                [](const Entry& entry) { return entry.first; });
      EXPECT_EQ(values, expected) << size << " below " << below;
    }
  }
}

}  // namespace
}  // namespace hearth::strategy
