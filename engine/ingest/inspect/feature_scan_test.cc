#include "engine/ingest/inspect/feature_scan.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "engine/store/array_type.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::ingest {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

template <typename T>
absl::Span<const std::byte> Bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const std::byte*>(values.data()),
          values.size() * sizeof(T)};
}

FeatureScan Scan(const std::vector<float>& values, int64_t columns,
                 const std::vector<int32_t>& labels = {}) {
  FeatureScan scan(store::DType::kFloat32, columns);
  scan.Add(Bytes(values), labels);
  return scan;
}

TEST(FeatureScanTest, CountsAsTheTextbookDoesWhateverTheBlocks) {
  constexpr int64_t kRows = 100, kColumns = 7;
  std::vector<float> values(kRows * kColumns);
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(std::sin(static_cast<double>(i)));
    if (i % 10 == 0) values[i] = 0;
    sum += values[i];
  }
  const double mean = sum / static_cast<double>(values.size());
  double squares = 0;
  for (const float value : values) squares += std::pow(value - mean, 2);
  for (const int64_t rows : {1, 2, 9, 100}) {
    FeatureScan scan(store::DType::kFloat32, kColumns);
    for (int64_t row = 0; row < kRows; row += rows) {
      const auto count = std::min(rows, kRows - row) * kColumns;
      scan.Add(Bytes(values).subspan(row * kColumns * 4, count * 4), {});
    }
    const FeatureStatistics statistics = scan.Statistics();
    EXPECT_EQ(statistics.min, *std::min_element(values.begin(), values.end()));
    EXPECT_EQ(statistics.max, *std::max_element(values.begin(), values.end()));
    EXPECT_NEAR(statistics.mean, mean, 1e-12);
    EXPECT_NEAR(statistics.standard_deviation,
                std::sqrt(squares / static_cast<double>(values.size())), 1e-12);
    EXPECT_EQ(statistics.num_zeros, 70u);
    EXPECT_EQ(statistics.num_non_finite, 0u);
  }
}

TEST(FeatureScanTest, SmallDeviationsFromALargeMeanSurvive) {
  const FeatureScan scan = Scan({1e7f, 1e7f + 1, 1e7f, 1e7f + 1}, 1);
  EXPECT_DOUBLE_EQ(scan.Statistics().mean, 1e7 + 0.5);
  EXPECT_DOUBLE_EQ(scan.Statistics().standard_deviation, 0.5);
}

TEST(FeatureScanTest, NonFiniteValuesCountApart) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  FeatureScan scan = Scan({NAN, -kInf, NAN, kInf}, 2);
  EXPECT_EQ(scan.Statistics().num_non_finite, 4u);
  EXPECT_EQ(scan.Statistics().mean, 0);
  EXPECT_EQ(scan.Statistics().max, 0);
  scan.Add(Bytes<float>({-3, NAN, -1, kInf}), {});
  EXPECT_EQ(scan.Statistics().num_non_finite, 6u);
  EXPECT_EQ(scan.Statistics().min, -3);
  EXPECT_EQ(scan.Statistics().max, -1);
  EXPECT_EQ(scan.Statistics().mean, -2);
  EXPECT_EQ(scan.Statistics().standard_deviation, 1);
}

TEST(FeatureScanTest, TheLargestFloatsDoNotOverflow) {
  constexpr float kMax = std::numeric_limits<float>::max();
  const FeatureStatistics statistics = Scan({kMax, -kMax}, 1).Statistics();
  EXPECT_EQ(statistics.mean, 0);
  EXPECT_EQ(statistics.standard_deviation, double{kMax});
}

TEST(FeatureScanTest, HalvesOfBothKindsAreValues) {
  const std::vector<uint16_t> half = {0x3C00, 0xC000, 0x0001, 0x7E00};
  FeatureScan scan(store::DType::kFloat16, 2);
  scan.Add(Bytes(half), {});
  EXPECT_EQ(scan.Statistics().max, 1);
  EXPECT_EQ(scan.Statistics().min, -2);
  EXPECT_EQ(scan.Statistics().num_non_finite, 1u);
  EXPECT_EQ(scan.Statistics().num_zeros, 0u);
  const std::vector<uint16_t> brain = {0x3F80, 0xC000, 0x0000, 0x7F80};
  FeatureScan other(store::DType::kBFloat16, 2);
  other.Add(Bytes(brain), {});
  EXPECT_EQ(other.Statistics().max, 1);
  EXPECT_EQ(other.Statistics().min, -2);
  EXPECT_EQ(other.Statistics().num_zeros, 1u);
  EXPECT_EQ(other.Statistics().num_non_finite, 1u);
}

TEST(FeatureScanTest, ConstantColumnsAndZeroRowsAreCounted) {
  const FeatureScan scan = Scan({1, 5, 2, 5, 0, 0, 0, 5, 0}, 3);
  EXPECT_THAT(scan.Statistics().constant_columns, IsEmpty());
  const FeatureScan other = Scan({1, 5, 2, 0, 5, 0, -0.f, 5, 0, 1, 5, 0}, 3);
  EXPECT_THAT(other.Statistics().constant_columns, ElementsAre(1));
  EXPECT_EQ(other.Statistics().num_zero_rows, 0u);
  EXPECT_EQ(Scan({0, 0, 1, 0, 0, -0.f}, 2).Statistics().num_zero_rows, 2u);
}

TEST(FeatureScanTest, AtMostAThousandConstantColumnsAreListed) {
  const FeatureScan scan = Scan(std::vector<float>(2 * 1500, 4.f), 1500);
  EXPECT_EQ(scan.Statistics().constant_columns.size(), 1000u);
}

TEST(FeatureScanTest, ColumnsEqualToTheLabelAreSuspect) {
  const std::vector<float> values = {2, 0.5, 2, 0, 0.5, 9, 1, 0.5, 1};
  EXPECT_THAT(Scan(values, 3, {2, -1, 1}).Suspects().labels, ElementsAre(0, 2));
  EXPECT_THAT(Scan(values, 3, {2, 0, 1}).Suspects().labels, ElementsAre(0));
  EXPECT_FALSE(Scan(values, 3, {0, 0, 0}).WantsLabels());
  EXPECT_THAT(Scan(values, 3, {-1, -1, -1}).Suspects().labels, IsEmpty());
  EXPECT_THAT(Scan(values, 3).Suspects().labels, IsEmpty());
}

TEST(FeatureScanTest, RowNumbersAndWholeNumbersAreSuspect) {
  const std::vector<float> values = {0, 0.5, 7, 1, 0.5, 3, 2, 0.25, 1e6};
  const SuspectColumns suspects = Scan(values, 3).Suspects();
  EXPECT_THAT(suspects.row_numbers, ElementsAre(0));
  EXPECT_THAT(suspects.whole_numbers, ElementsAre(0, 2));
  EXPECT_THAT(Scan({1, -1, NAN, 2e6f}, 4).Suspects().whole_numbers,
              ElementsAre(0));
}

TEST(FeatureScanTest, AnNpyHeaderAmongTheValuesIsSeen) {
  std::vector<float> values(64, 1.f);
  EXPECT_FALSE(Scan(values, 32).begins_like_npy());
  std::memcpy(values.data(), "\x93NUMPY\x01", 7);
  EXPECT_TRUE(Scan(values, 32).begins_like_npy());
  EXPECT_FALSE(Scan({1.f}, 1).begins_like_npy());
}

}  // namespace
}  // namespace hearth::ingest
