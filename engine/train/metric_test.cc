#include "engine/train/metric.h"

#include <cmath>
#include <string>

#include "absl/status/status.h"
#include "engine/store/label_kind.h"
#include "engine/train/ranking.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::train {
namespace {

TEST(MetricTest, EachKindOfLabelsHasItsOwn) {
  EXPECT_EQ(Name(MetricFor(store::LabelKind::kClasses)), "accuracy");
  EXPECT_EQ(Name(MetricFor(store::LabelKind::kMultiLabel)), "micro_f1");
  EXPECT_EQ(Name(MetricFor(store::LabelKind::kTargets)), "mse");
}

TEST(MetricTest, NamesReadBack) {
  for (const Metric metric :
       {Metric::kAccuracy, Metric::kMicroF1, Metric::kMeanSquaredError,
        Metric::kRocAuc, Metric::kAveragePrecision}) {
    EXPECT_EQ(MetricNamed(Name(metric)), metric);
  }
  EXPECT_EQ(Name(Metric::kRocAuc), "roc_auc");
  EXPECT_EQ(Name(Metric::kAveragePrecision), "average_precision");
  EXPECT_EQ(MetricNamed("auc"), std::nullopt);
}

TEST(MetricTest, JudgesSomeKindsOfLabels) {
  using store::LabelKind;
  for (const Metric metric : {Metric::kRocAuc, Metric::kAveragePrecision}) {
    EXPECT_TRUE(IsRanking(metric));
    EXPECT_TRUE(CheckMetric(metric, LabelKind::kClasses, 2).ok());
    EXPECT_TRUE(CheckMetric(metric, LabelKind::kClasses, 45).ok());
    EXPECT_TRUE(CheckMetric(metric, LabelKind::kMultiLabel, 1).ok());
    const absl::Status single = CheckMetric(metric, LabelKind::kClasses, 1);
    EXPECT_TRUE(absl::IsInvalidArgument(single));
    EXPECT_THAT(std::string(single.message()),
                ::testing::AllOf(::testing::HasSubstr(Name(metric)),
                                 ::testing::HasSubstr("a single class")));
    EXPECT_FALSE(CheckMetric(metric, LabelKind::kTargets, 1).ok());
  }
  EXPECT_FALSE(IsRanking(Metric::kAccuracy));
  EXPECT_TRUE(CheckMetric(Metric::kAccuracy, LabelKind::kClasses, 1).ok());
  const absl::Status refused =
      CheckMetric(Metric::kMicroF1, LabelKind::kClasses, 2);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()),
              ::testing::HasSubstr(
                  "metric: must be accuracy, roc_auc or average_precision for "
                  "labels of kind classes, not micro_f1"));
  EXPECT_FALSE(CheckMetric(Metric::kAccuracy, LabelKind::kTargets, 1).ok());
}

TEST(MetricTest, TwoClassesAreOneColumn) {
  EXPECT_EQ(RankedColumns(store::LabelKind::kClasses, 2), 1);
  EXPECT_EQ(RankedColumns(store::LabelKind::kClasses, 3), 3);
  EXPECT_EQ(RankedColumns(store::LabelKind::kMultiLabel, 2), 2);
}

TEST(MetricTest, ErrorsAreBetterWhenLow) {
  for (const Metric metric : {Metric::kAccuracy, Metric::kMicroF1,
                              Metric::kRocAuc, Metric::kAveragePrecision}) {
    EXPECT_TRUE(IsBetter(metric, 0.6, 0.5));
    EXPECT_FALSE(IsBetter(metric, 0.5, 0.5));
    EXPECT_FALSE(IsBetter(metric, 0.4, 0.5));
    EXPECT_FALSE(IsBetter(metric, std::nan(""), 0.5));
  }
  EXPECT_TRUE(IsBetter(Metric::kMeanSquaredError, 0.4, 0.5));
  EXPECT_FALSE(IsBetter(Metric::kMeanSquaredError, 0.5, 0.5));
  EXPECT_FALSE(IsBetter(Metric::kMeanSquaredError, 0.6, 0.5));
  EXPECT_FALSE(IsBetter(Metric::kMeanSquaredError, std::nan(""), 0.5));
}

TEST(TallyTest, AccuracyIsTheShareThatIsRight) {
  Tally tally{.num_predictions = 3, .num_correct = 1};
  tally.Add({.num_predictions = 5, .num_correct = 5});
  EXPECT_EQ(tally.Value(Metric::kAccuracy), 0.75);
}

// Counts are summed before the ratio is taken.
TEST(TallyTest, MicroF1IsOfTheSums) {
  Tally tally{.true_positives = 3, .false_positives = 1, .false_negatives = 0};
  tally.Add({.true_positives = 0, .false_positives = 2, .false_negatives = 3});
  EXPECT_EQ(tally.Value(Metric::kMicroF1), 6.0 / (6 + 3 + 3));
}

TEST(TallyTest, MeanSquaredErrorIsOverAllPredictions) {
  Tally tally{.num_predictions = 2, .squared_error = 1.5};
  tally.Add({.num_predictions = 6, .squared_error = 0.5});
  EXPECT_EQ(tally.Value(Metric::kMeanSquaredError), 0.25);
}

TEST(TallyTest, RankingsAreOfAllScores) {
  Tally tally{.ranking = {.columns = 1, .scores = {{1, false}, {2, true}}}};
  EXPECT_EQ(tally.Value(Metric::kRocAuc), 1);
  tally.Add({.ranking = {.columns = 1, .scores = {{3, false}}}});
  EXPECT_EQ(tally.Value(Metric::kRocAuc), 0.5);
  EXPECT_EQ(tally.Value(Metric::kAveragePrecision), 0.5);
  EXPECT_TRUE(std::isnan(Tally().Value(Metric::kRocAuc)));
}

TEST(TallyTest, NothingPredictedIsZero) {
  EXPECT_EQ(Tally().Value(Metric::kAccuracy), 0);
  EXPECT_EQ(Tally().Value(Metric::kMicroF1), 0);
  EXPECT_EQ(Tally().Value(Metric::kMeanSquaredError), 0);
}

}  // namespace
}  // namespace hearth::train
