#include "engine/ingest/generate/generated_classes.h"

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "gtest/gtest.h"

namespace hearth::ingest {
namespace {

NodePermutation Make(uint64_t seed, int64_t size) {
  return NodePermutation(GeneratorKey(seed, GeneratorPart::kNodeIds), size);
}

class NodePermutationTest : public testing::TestWithParam<int64_t> {};

TEST_P(NodePermutationTest, TakesEachNumberToAnotherAndBack) {
  const int64_t size = GetParam();
  const NodePermutation permutation = Make(3, size);
  std::vector<bool> seen(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) {
    const int64_t to = permutation.Apply(i);
    ASSERT_GE(to, 0);
    ASSERT_LT(to, size);
    ASSERT_FALSE(seen[static_cast<size_t>(to)]) << i;
    seen[static_cast<size_t>(to)] = true;
    ASSERT_EQ(permutation.Invert(to), i);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, NodePermutationTest,
                         testing::Values(1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33,
                                         1000, 65536, 65537, 100'003));

TEST(NodePermutationTest, TakesBigNumbersThereAndBack) {
  for (const int64_t size : {(int64_t{1} << 35) - 19, int64_t{1} << 35,
                             (int64_t{1} << 62) - 1, int64_t{1} << 62}) {
    const NodePermutation permutation = Make(5, size);
    for (int64_t i = 0; i < 1000; ++i) {
      const int64_t value = size / 1000 * i;
      const int64_t to = permutation.Apply(value);
      ASSERT_GE(to, 0);
      ASSERT_LT(to, size);
      ASSERT_EQ(permutation.Invert(to), value);
    }
  }
}

TEST(NodePermutationTest, SeedsDiffer) {
  const NodePermutation one = Make(1, 100'000);
  const NodePermutation other = Make(2, 100'000);
  int equal = 0;
  for (int64_t i = 0; i < 100'000; ++i) {
    equal += one.Apply(i) == other.Apply(i) ? 1 : 0;
  }
  // Two random permutations agree at one place on average.
  EXPECT_LT(equal, 10);
}

// Neighboring numbers are separated, and keep neither order nor parity.
TEST(NodePermutationTest, Scrambles) {
  constexpr int64_t kSize = 1'000'000;
  const NodePermutation permutation = Make(7, kSize);
  double distance = 0;
  int ascending = 0;
  int same_parity = 0;
  for (int64_t i = 0; i + 1 < kSize; ++i) {
    const int64_t here = permutation.Apply(i);
    const int64_t next = permutation.Apply(i + 1);
    distance += static_cast<double>(std::abs(here - next));
    ascending += here < next ? 1 : 0;
    same_parity += here % 2 == i % 2 ? 1 : 0;
  }
  EXPECT_NEAR(distance / kSize, kSize / 3.0, kSize * 0.03);
  EXPECT_NEAR(ascending / static_cast<double>(kSize), 0.5, 0.02);
  EXPECT_NEAR(same_parity / static_cast<double>(kSize), 0.5, 0.02);
}

}  // namespace
}  // namespace hearth::ingest
