#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stop_token>
#include <vector>

#include "absl/types/span.h"
#include "engine/ingest/generate/generated_features.h"
#include "engine/ingest/generate/generated_split.h"
#include "engine/io/file_system.h"
#include "engine/store/float16.h"
#include "gtest/gtest.h"

namespace hearth::ingest {
namespace {

GenerateOptions Options() {
  GenerateOptions options;
  options.num_nodes = 10'007;
  options.num_edges = 1;
  options.feature_dim = 33;
  options.seed = 4;
  return options;
}

template <typename T>
std::vector<T> All(const ComputedItems& items) {
  std::vector<T> values(
      static_cast<size_t>(items.num_items() * items.item_bytes()) / sizeof(T));
  items.Compute(0, absl::MakeSpan(reinterpret_cast<std::byte*>(values.data()),
                                  values.size() * sizeof(T)));
  return values;
}

template <typename T>
std::vector<T> FeaturesOf(const GenerateOptions& options) {
  return All<T>(*NewGeneratedFeatures(options, GeneratedClasses(options)));
}

TEST(GeneratedFeaturesTest, OtherTypesHoldTheSameRounded) {
  GenerateOptions options = Options();
  const std::vector<float> wide = FeaturesOf<float>(options);
  options.feature_dtype = store::DType::kFloat16;
  const std::vector<uint16_t> half = FeaturesOf<uint16_t>(options);
  options.feature_dtype = store::DType::kBFloat16;
  const std::vector<uint16_t> bfloat = FeaturesOf<uint16_t>(options);
  ASSERT_EQ(wide.size(), 10'007u * 33u);
  for (size_t i = 0; i < wide.size(); ++i) {
    ASSERT_EQ(half[i], store::FloatToFloat16(wide[i]));
    ASSERT_EQ(bfloat[i], store::FloatToBFloat16(wide[i]));
  }
}

TEST(GeneratedFeaturesTest, FollowFromTheSeed) {
  GenerateOptions options = Options();
  const std::vector<float> one = FeaturesOf<float>(options);
  EXPECT_EQ(one, FeaturesOf<float>(options));
  options.seed = 5;
  EXPECT_NE(one, FeaturesOf<float>(options));
}

TEST(GeneratedFeaturesTest, AreNoiseOfVarianceOneAroundTheCentroids) {
  const GenerateOptions options = Options();
  const GeneratedClasses classes(options);
  const std::vector<float> rows = FeaturesOf<float>(options);
  const auto dim = static_cast<size_t>(options.feature_dim);
  std::vector<double> sums(16 * dim);
  std::vector<double> squares(16 * dim);
  for (size_t i = 0; i < rows.size(); ++i) {
    const int64_t label = classes.ClassOf(static_cast<int64_t>(i / dim));
    sums[static_cast<size_t>(label) * dim + i % dim] += rows[i];
    squares[static_cast<size_t>(label) * dim + i % dim] += rows[i] * rows[i];
  }
  double variance = 0;
  for (size_t i = 0; i < sums.size(); ++i) {
    const auto count =
        static_cast<double>(classes.SizeOf(static_cast<int64_t>(i / dim)));
    variance += squares[i] / count - std::pow(sums[i] / count, 2);
  }
  EXPECT_NEAR(variance / static_cast<double>(sums.size()), 1, 0.01);
}

TEST(GeneratedLabelsTest, ClassesAreOfEqualSize) {
  const GenerateOptions options = Options();
  const GeneratedClasses classes(options);
  std::vector<int64_t> counts(16);
  for (const int32_t label : All<int32_t>(*NewGeneratedLabels(classes))) {
    ++counts[static_cast<size_t>(label)];
  }
  for (int64_t label = 0; label < 16; ++label) {
    EXPECT_EQ(counts[static_cast<size_t>(label)], classes.SizeOf(label));
    EXPECT_NEAR(counts[static_cast<size_t>(label)], 10'007 / 16.0, 1);
  }
}

class GeneratedSplitTest : public testing::Test {
 protected:
  absl::StatusOr<std::array<std::unique_ptr<ComputedItems>, 3>> Split(
      const GenerateOptions& options) {
    ImportContext context(io::FileSystem::Posix(), 1 << 20, "unused", progress_,
                          stop_.get_token());
    return NewGeneratedSplit(context, options);
  }

  ImportProgress progress_;
  std::stop_source stop_;
};

TEST_F(GeneratedSplitTest, PartsAreAscendingDisjointAndOfTheirSize) {
  GenerateOptions options = Options();
  options.num_nodes = 300'000;
  const auto parts = Split(options);
  ASSERT_TRUE(parts.ok());
  std::vector<bool> seen(300'000);
  const size_t sizes[] = {30'000, 15'000, 15'000};
  for (size_t i = 0; i < 3; ++i) {
    const std::vector<int64_t> part = All<int64_t>(*(*parts)[i]);
    ASSERT_EQ(part.size(), sizes[i]);
    EXPECT_TRUE(std::is_sorted(part.begin(), part.end()));
    // Not the first nodes, nor the last.
    EXPECT_NEAR(static_cast<double>(part[part.size() / 2]), 150'000, 5'000);
    for (const int64_t node : part) {
      ASSERT_LT(node, 300'000);
      ASSERT_FALSE(seen[static_cast<size_t>(node)]);
      seen[static_cast<size_t>(node)] = true;
    }
  }
}

TEST_F(GeneratedSplitTest, IsTheSameWhereverAReadBegins) {
  GenerateOptions options = Options();
  options.num_nodes = 300'000;
  const auto parts = Split(options);
  ASSERT_TRUE(parts.ok());
  const ComputedItems& part = *(*parts)[1];
  const std::vector<int64_t> whole = All<int64_t>(part);
  for (int64_t first = 0; first < 15'000; first += 379) {
    std::vector<int64_t> some(std::min<int64_t>(5, 15'000 - first));
    part.Compute(first,
                 absl::MakeSpan(reinterpret_cast<std::byte*>(some.data()),
                                some.size() * sizeof(int64_t)));
    ASSERT_TRUE(std::equal(some.begin(), some.end(), whole.begin() + first));
  }
}

TEST_F(GeneratedSplitTest, CanTakeAllNodes) {
  GenerateOptions options = Options();
  options.num_nodes = 10;
  options.train_share = 0.8;
  options.valid_share = 0.1;
  options.test_share = 0.1;
  const auto parts = Split(options);
  ASSERT_TRUE(parts.ok());
  EXPECT_EQ((*parts)[0]->num_items(), 8);
  EXPECT_EQ((*parts)[1]->num_items(), 1);
  EXPECT_EQ((*parts)[2]->num_items(), 1);
}

TEST_F(GeneratedSplitTest, CanBeCancelled) {
  stop_.request_stop();
  EXPECT_TRUE(absl::IsCancelled(Split(Options()).status()));
}

}  // namespace
}  // namespace hearth::ingest
