#include "engine/store/array_type.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

#include "gtest/gtest.h"

namespace hearth::store {

namespace {

struct Facts {
  DType dtype;
  const char* name;
  int64_t size;
};

class DTypeTest : public testing::TestWithParam<Facts> {};

TEST_P(DTypeTest, HasNameAndSize) {
  EXPECT_EQ(Name(GetParam().dtype), GetParam().name);
  EXPECT_EQ(SizeOf(GetParam().dtype), GetParam().size);
  EXPECT_EQ(*ParseDType(GetParam().name), GetParam().dtype);
}

INSTANTIATE_TEST_SUITE_P(All, DTypeTest,
                         testing::Values(Facts{DType::kFloat32, "float32", 4},
                                         Facts{DType::kFloat16, "float16", 2},
                                         Facts{DType::kBFloat16, "bfloat16", 2},
                                         Facts{DType::kInt32, "int32", 4},
                                         Facts{DType::kInt64, "int64", 8},
                                         Facts{DType::kUint8, "uint8", 1},
                                         Facts{DType::kScaledInt8,
                                               "scaled_int8", 1}));

TEST(ParseDTypeTest, RefusesAnythingElse) {
  for (const char* name : {"", "float", "Float32", "float64", "<f4", "int8"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseDType(name).status())) << name;
  }
}

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
  // Between each two neighbors: their middle, and the floats next to the
  // middle.
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
