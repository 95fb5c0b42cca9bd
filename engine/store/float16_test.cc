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

// The bits that are stored mean the same value, for every value there is.
TEST(Float16Test, EveryBitPatternComesBack) {
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const double value = Float16ToDouble(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(
          Float16ToDouble(FloatToFloat16(static_cast<float>(value)))));
    } else {
      ASSERT_EQ(FloatToFloat16(static_cast<float>(value)), half);
    }
    const float wide = BFloat16ToFloat(half);
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(BFloat16ToFloat(FloatToBFloat16(wide))));
    } else {
      ASSERT_EQ(FloatToBFloat16(wide), half);
    }
  }
}

TEST(Float16Test, RoundsToTheNearestAndTiesToEven) {
  // Between each two neighbors: their middle, and what is next to it.
  for (uint16_t bits = 0; bits < 0x7BFF; ++bits) {
    const auto low = static_cast<float>(Float16ToDouble(bits));
    const auto high = static_cast<float>(Float16ToDouble(bits + 1));
    const float middle = (low + high) / 2;
    const auto above = static_cast<uint16_t>(bits + 1);
    ASSERT_EQ(FloatToFloat16(std::nextafter(middle, low)), bits);
    ASSERT_EQ(FloatToFloat16(std::nextafter(middle, high)), above);
    ASSERT_EQ(FloatToFloat16(middle), bits % 2 == 0 ? bits : above);
    ASSERT_EQ(FloatToFloat16(-middle), 0x8000 | (bits % 2 == 0 ? bits : above));
  }
  EXPECT_EQ(FloatToBFloat16(FromBits(0x3F808000)), 0x3F80);
  EXPECT_EQ(FloatToBFloat16(FromBits(0x3F818000)), 0x3F82);
  EXPECT_EQ(FloatToBFloat16(FromBits(0x3F808001)), 0x3F81);
}

TEST(Float16Test, WhatIsTooLargeIsInfinite) {
  EXPECT_EQ(FloatToFloat16(65519.0f), 0x7BFF);
  EXPECT_EQ(FloatToFloat16(65520.0f), 0x7C00);
  EXPECT_EQ(FloatToFloat16(-1e30f), 0xFC00);
  EXPECT_EQ(FloatToFloat16(INFINITY), 0x7C00);
  EXPECT_EQ(FloatToBFloat16(FromBits(0x7F7FFFFF)), 0x7F80);
}

}  // namespace
}  // namespace hearth::store
