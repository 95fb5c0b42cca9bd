#include "engine/store/float16.h"

#include <cmath>
#include <cstdint>
#include <cstring>

#include "gtest/gtest.h"

namespace hearth::store {
namespace {

/// The float with these bits.
float FromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// Another way to the same: a binary16's bits moved to a binary32's places give
// its value times 2^-112, subnormals, too.
TEST(Float16Test, EveryFiniteBitPattern) {
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    if ((bits & 0x7C00) == 0x7C00) continue;
    const float expected =
        FromBits((bits & 0x8000) << 16 | (bits & 0x7FFF) << 13) * 0x1p112f;
    const double value = Float16ToDouble(static_cast<uint16_t>(bits));
    ASSERT_EQ(value, expected) << bits;
    ASSERT_EQ(std::signbit(value), (bits & 0x8000) != 0) << bits;
  }
}

TEST(Float16Test, AsFloatsTheyAreTheSame) {
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const float value = Float16ToFloat(static_cast<uint16_t>(bits));
    const double expected = Float16ToDouble(static_cast<uint16_t>(bits));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      continue;
    }
    ASSERT_EQ(value, expected) << bits;
    ASSERT_EQ(std::signbit(value), std::signbit(expected)) << bits;
  }
}

TEST(Float16Test, KnownValues) {
  EXPECT_EQ(Float16ToDouble(0x3C00), 1.0);
  EXPECT_EQ(Float16ToDouble(0xC000), -2.0);
  EXPECT_EQ(Float16ToDouble(0x3555), 0.333251953125);
  EXPECT_EQ(Float16ToDouble(0x7BFF), 65504.0);
  EXPECT_EQ(Float16ToDouble(0x0001), 0x1p-24);
}

TEST(Float16Test, InfinitiesAndNans) {
  EXPECT_EQ(Float16ToDouble(0x7C00), INFINITY);
  EXPECT_EQ(Float16ToDouble(0xFC00), -INFINITY);
  for (uint32_t mantissa = 1; mantissa <= 0x3FF; ++mantissa) {
    ASSERT_TRUE(
        std::isnan(Float16ToDouble(static_cast<uint16_t>(0x7C00 | mantissa))));
  }
}

}  // namespace
}  // namespace hearth::store
