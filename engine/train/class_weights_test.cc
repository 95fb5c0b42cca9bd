#include "engine/train/class_weights.h"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/store/label_kind.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::train {
namespace {

using store::LabelKind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string ErrorOf(const ClassWeights& weights, LabelKind kind,
                    int64_t width) {
  const absl::Status status = weights.Validate(kind, width);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(ClassWeightsTest, NoneFitAllLabels) {
  for (const auto kind :
       {LabelKind::kClasses, LabelKind::kMultiLabel, LabelKind::kTargets}) {
    EXPECT_TRUE(ClassWeights().Validate(kind, 3).ok());
  }
  const std::vector<int64_t> counts = {1, 2};
  EXPECT_THAT(ClassWeights().Resolve(counts), IsEmpty());
}

TEST(ClassWeightsTest, ListsHaveAPositiveNumberForEachClass) {
  const ClassWeights list = {.values = {1, 5}};
  EXPECT_TRUE(list.Validate(LabelKind::kClasses, 2).ok());
  EXPECT_TRUE(list.Validate(LabelKind::kMultiLabel, 2).ok());
  EXPECT_THAT(list.Resolve({}), ElementsAre(1, 5));
  EXPECT_THAT(ErrorOf({.values = {1, 5}}, LabelKind::kClasses, 3),
              HasSubstr("class_weights.values: must have an entry for each of "
                        "the 3 classes, not 2"));
  for (const double wrong :
       {0.0, -1.0, 1e-300, 1e300, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THAT(ErrorOf({.values = {1, wrong}}, LabelKind::kClasses, 2),
                HasSubstr("class_weights.values: must be positive numbers"));
  }
  EXPECT_THAT(ErrorOf({.values = {1}}, LabelKind::kTargets, 1),
              HasSubstr("class_weights.values: must be absent"));
  EXPECT_THAT(ErrorOf({.balanced = true}, LabelKind::kTargets, 1),
              HasSubstr("balanced_classes: must be absent: the labels are "
                        "targets"));
}

// compute_class_weight("balanced", ...) of 8, 2 and 10 labels: 20 / (3 * 8),
// ...
TEST(ClassWeightsTest, BalancedIsScikitLearns) {
  const ClassWeights balanced = {.balanced = true};
  EXPECT_TRUE(balanced.Validate(LabelKind::kClasses, 3).ok());
  const std::vector<int64_t> counts = {8, 2, 10};
  EXPECT_THAT(balanced.Resolve(counts),
              ElementsAre(20.0f / 24, 20.0f / 6, 20.0f / 30));
  const std::vector<int64_t> one_absent = {8, 0, 2};
  EXPECT_THAT(balanced.Resolve(one_absent),
              ElementsAre(10.0f / 16, 1, 10.0f / 4));
  EXPECT_THAT(ErrorOf(balanced, LabelKind::kMultiLabel, 3),
              HasSubstr("balanced_classes: "));
  EXPECT_THAT(ErrorOf(balanced, LabelKind::kTargets, 3), HasSubstr("targets"));
}

}  // namespace
}  // namespace hearth::train
