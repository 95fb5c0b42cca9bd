#include "engine/store/row_codec.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace hearth::store {
namespace {

constexpr float kMost = std::numeric_limits<float>::max();
constexpr float kLeast = std::numeric_limits<float>::denorm_min();

// A row of int8s, taken apart.
struct ScaledRow {
  explicit ScaledRow(const std::vector<float>& values)
      : bytes(RowBytes(std::ssize(values), DType::kScaledInt8)),
        refused(EncodeRow(values, DType::kScaledInt8, bytes.data())) {
    const auto* const first = reinterpret_cast<const int8_t*>(bytes.data());
    steps.assign(first, first + values.size());
    std::memcpy(&scale, bytes.data() + values.size(), sizeof(scale));
  }

  std::vector<std::byte> bytes;
  int64_t refused;
  std::vector<int> steps;
  float scale = 0;
};

TEST(RowCodecTest, NamesAreThoseOfTheOption) {
  for (const DType dtype : {DType::kBFloat16, DType::kScaledInt8}) {
    EXPECT_EQ(RowTypeNamed(RowTypeName(dtype)), dtype);
  }
  EXPECT_EQ(RowTypeNamed(""), std::nullopt);
  EXPECT_EQ(RowTypeNamed("fp32"), std::nullopt);
}

TEST(RowCodecTest, BytesOfRowsHaveTheScale) {
  EXPECT_EQ(RowBytes(100, DType::kFloat32), 400);
  EXPECT_EQ(RowBytes(100, DType::kBFloat16), 200);
  EXPECT_EQ(RowBytes(100, DType::kScaledInt8), 104);
}

TEST(RowCodecTest, BFloat16KeepsWhatItCanHold) {
  const std::vector<float> values = {
      1.0f, -0.0f, 0x1.02p-100f, NAN, INFINITY, -INFINITY, kMost, 0x1.01p0f};
  std::vector<uint16_t> row(values.size());
  EXPECT_EQ(EncodeRow(values, DType::kBFloat16,
                      reinterpret_cast<std::byte*>(row.data())),
            -1);
  EXPECT_EQ(row[0], 0x3F80);
  EXPECT_EQ(row[1], 0x8000);
  EXPECT_EQ(BFloat16ToFloat(row[2]), 0x1.02p-100f);
  EXPECT_TRUE(std::isnan(BFloat16ToFloat(row[3])));
  EXPECT_EQ(BFloat16ToFloat(row[4]), INFINITY);
  EXPECT_EQ(BFloat16ToFloat(row[5]), -INFINITY);
  EXPECT_EQ(BFloat16ToFloat(row[6]), INFINITY);  // The nearest.
  EXPECT_EQ(row[7], 0x3F80);                     // A tie.
}

TEST(RowCodecTest, ScalesTheLargestMagnitudeTo127) {
  const ScaledRow row({0, 1, -2, 127, -63.4f});
  EXPECT_EQ(row.refused, -1);
  EXPECT_EQ(row.scale, 1);
  EXPECT_EQ(row.steps, (std::vector<int>{0, 1, -2, 127, -63}));
  const ScaledRow negative({1, -254});
  EXPECT_EQ(negative.scale, 2);
  EXPECT_EQ(negative.steps, (std::vector<int>{0, -127}));
}

TEST(RowCodecTest, TiesGoToEvenSteps) {
  const ScaledRow row({127, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 126.5f});
  EXPECT_EQ(row.steps, (std::vector<int>{127, 0, 2, 2, 0, -2, 126}));
}

TEST(RowCodecTest, RowsOfZerosHaveNoScale) {
  for (const std::vector<float>& values :
       {std::vector<float>{0, -0.0f, 0}, std::vector<float>{kLeast, -kLeast}}) {
    const ScaledRow row(values);
    EXPECT_EQ(row.refused, -1);
    EXPECT_EQ(row.scale, 0);
    EXPECT_EQ(row.steps, std::vector<int>(values.size(), 0));
  }
}

TEST(RowCodecTest, ExtremesStayFinite) {
  const ScaledRow large({kMost, -kMost, 1});
  EXPECT_EQ(large.steps, (std::vector<int>{127, -127, 0}));
  EXPECT_TRUE(std::isfinite(127 * large.scale));
  const ScaledRow small({190 * kLeast, -190 * kLeast});
  EXPECT_EQ(small.scale, kLeast);
  EXPECT_EQ(small.steps, (std::vector<int>{127, -127}));
}

TEST(RowCodecTest, TheFirstValueThatIsNotFiniteIsRefused) {
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    EXPECT_EQ(ScaledRow({bad, 1}).refused, 0);
    EXPECT_EQ(ScaledRow({0, kMost, bad, bad}).refused, 2);
  }
}

// No other step is nearer, for rows of all magnitudes. Division and product
// round, which moves a tie by a millionth of a step.
TEST(RowCodecTest, EachValueGetsTheNearestStep) {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (int exponent = -120; exponent <= 127; exponent += 13) {
    std::vector<float> values(131);
    for (float& value : values) {
      value = std::ldexp(uniform(random), exponent);
    }
    const ScaledRow row(values);
    ASSERT_EQ(row.refused, -1);
    float most = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      most = std::max(most, std::abs(values[i]));
      ASSERT_LE(std::abs(double{row.scale} * row.steps[i] - values[i]),
                0.500001 * row.scale)
          << values[i];
    }
    EXPECT_EQ(row.scale, most / 127);
  }
}

// What was rounded once stays: its scale is that of its largest step.
TEST(RowCodecTest, RoundingAgainChangesNothing) {
  std::mt19937 random(6);
  std::normal_distribution<float> normal;
  std::vector<float> values(64);
  for (int round = 0; round < 100; ++round) {
    for (float& value : values) value = normal(random);
    const ScaledRow once(values);
    std::vector<float> decoded;
    for (const int step : once.steps) {
      decoded.push_back(static_cast<float>(step) * once.scale);
    }
    EXPECT_EQ(ScaledRow(decoded).steps, once.steps);
  }
}

}  // namespace
}  // namespace hearth::store
