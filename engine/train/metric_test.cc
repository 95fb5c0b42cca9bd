#include "engine/train/metric.h"

#include <cmath>

#include "engine/store/label_kind.h"
#include "gtest/gtest.h"

namespace hearth::train {
namespace {

TEST(MetricTest, EachKindOfLabelsHasItsOwn) {
  EXPECT_EQ(Name(MetricFor(store::LabelKind::kClasses)), "accuracy");
  EXPECT_EQ(Name(MetricFor(store::LabelKind::kMultiLabel)), "micro_f1");
  EXPECT_EQ(Name(MetricFor(store::LabelKind::kTargets)), "mse");
}

TEST(MetricTest, ErrorsAreBetterWhenLow) {
  for (const Metric metric : {Metric::kAccuracy, Metric::kMicroF1}) {
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

TEST(TallyTest, NothingPredictedIsZero) {
  EXPECT_EQ(Tally().Value(Metric::kAccuracy), 0);
  EXPECT_EQ(Tally().Value(Metric::kMicroF1), 0);
  EXPECT_EQ(Tally().Value(Metric::kMeanSquaredError), 0);
}

}  // namespace
}  // namespace hearth::train
