#include "engine/store/shape.h"

#include <cstdint>
#include <limits>

#include "gtest/gtest.h"

namespace hearth::store {
namespace {

TEST(ArrayBytesTest, IsTheProduct) {
  EXPECT_EQ(ArrayBytes({}, 4), 4);
  EXPECT_EQ(ArrayBytes({3, 5}, 2), 30);
  EXPECT_EQ(ArrayBytes({3, 0, 5}, 8), 0);
}

TEST(ArrayBytesTest, RefusesWhatOverflows) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(ArrayBytes({kMax}, 1), kMax);
  EXPECT_EQ(ArrayBytes({kMax}, 2), std::nullopt);
  EXPECT_EQ(ArrayBytes({int64_t{1} << 32, int64_t{1} << 31}, 1), std::nullopt);
  // 2^66 = 4 in 64 bits.
  EXPECT_EQ(ArrayBytes({(int64_t{1} << 62) + 1, 4}, 1), std::nullopt);
}

TEST(ArrayBytesTest, RefusesNegativeDimensions) {
  EXPECT_EQ(ArrayBytes({-1}, 4), std::nullopt);
  EXPECT_EQ(ArrayBytes({-2, -3}, 4), std::nullopt);
}

TEST(FormatShapeTest, LooksLikeNumpys) {
  EXPECT_EQ(FormatShape({}), "()");
  EXPECT_EQ(FormatShape({5}), "(5,)");
  EXPECT_EQ(FormatShape({3, 4}), "(3, 4)");
}

}  // namespace
}  // namespace hearth::store
