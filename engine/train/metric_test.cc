#include "engine/train/metric.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/store/labels.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::train {

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

Ranking OneColumn(const std::vector<float>& scores,
                  const std::vector<bool>& positive) {
  Ranking ranking{.columns = 1};
  for (size_t i = 0; i < scores.size(); ++i) {
    ranking.scores.push_back({scores[i], positive[i]});
  }
  return ranking;
}

// The example of scikit-learn's roc_auc_score and average_precision_score.
TEST(RankingTest, IsScikitLearns) {
  const Ranking ranking =
      OneColumn({0.1f, 0.4f, 0.35f, 0.8f}, {false, false, true, true});
  EXPECT_DOUBLE_EQ(RocAuc(ranking), 0.75);
  // Recall 1/2 at precision 1, recall 1 at precision 2/3.
  EXPECT_DOUBLE_EQ(AveragePrecision(ranking), 0.5 * 1 + 0.5 * 2 / 3);
}

// 3: +; 2: + - -; 1: + -; 0: -.
TEST(RankingTest, EqualScoresAreOneStep) {
  const Ranking ranking = OneColumn(
      {2, 0, 1, 3, 2, 1, 2}, {false, false, true, true, true, false, false});
  // Among 3 * 4 pairs, the 3 wins 4; the 2 wins 2 and ties with 2; the 1 wins
  // 1 and ties with 1.
  EXPECT_DOUBLE_EQ(RocAuc(ranking), (4 + 2 + 2 * 0.5 + 1 + 0.5) / 12);
  // Precisions after the steps with positives: 1/1, 2/4, 3/6.
  EXPECT_DOUBLE_EQ(AveragePrecision(ranking), (1 + 0.5 + 0.5) / 3);
}

TEST(RankingTest, ExtremesAndConstantScores) {
  const std::vector<bool> positive = {true, false, true, false, false};
  const Ranking best = OneColumn({9, 1, 8, 2, 3}, positive);
  EXPECT_EQ(RocAuc(best), 1);
  EXPECT_EQ(AveragePrecision(best), 1);
  const Ranking worst = OneColumn({1, 9, 2, 8, 7}, positive);
  EXPECT_EQ(RocAuc(worst), 0);
  EXPECT_DOUBLE_EQ(AveragePrecision(worst), (1.0 / 4 + 2.0 / 5) / 2);
  const Ranking constant = OneColumn({5, 5, 5, 5, 5}, positive);
  EXPECT_EQ(RocAuc(constant), 0.5);
  // The share of positives.
  EXPECT_DOUBLE_EQ(AveragePrecision(constant), 0.4);
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(
      RocAuc(OneColumn({infinity, -infinity, 0, -infinity, -1}, positive)), 1);
}

TEST(RankingTest, WhatIsNotKnownRanksNowhere) {
  Ranking ranking = OneColumn({0.1f, 0.9f, 0.4f, 0.35f, kNaN, 0.8f},
                              {false, false, false, true, false, true});
  ranking.scores[1].is_known = ranking.scores[4].is_known = false;
  EXPECT_DOUBLE_EQ(RocAuc(ranking), 0.75);
  EXPECT_DOUBLE_EQ(AveragePrecision(ranking), 0.5 * 1 + 0.5 * 2 / 3);
}

TEST(RankingTest, IsTheMeanOverColumnsWithBoth) {
  Ranking ranking{.columns = 3};
  // The first column is perfect, the second reversed, and all nodes of the
  // third have the label.
  ranking.Add({.columns = 3,
               .scores = {{2, true},
                          {1, true},
                          {0.5f, true},
                          {1, false},
                          {2, false},
                          {7, true}}});
  EXPECT_DOUBLE_EQ(RocAuc(ranking), 0.5);
  EXPECT_DOUBLE_EQ(AveragePrecision(ranking), (1 + 0.5) / 2);
}

TEST(RankingTest, IsNotDefinedForOneClassOrNaN) {
  for (const Ranking& ranking :
       {Ranking(), OneColumn({}, {}), OneColumn({1, 2}, {true, true}),
        OneColumn({1, 2}, {false, false}),
        OneColumn({1, kNaN, 2}, {true, false, true})}) {
    EXPECT_TRUE(std::isnan(RocAuc(ranking)));
    EXPECT_TRUE(std::isnan(AveragePrecision(ranking)));
  }
}

TEST(RankingTest, PartsAddUp) {
  Ranking whole;
  whole.Add(OneColumn({0.1f, 0.4f}, {false, false}));
  whole.Add(Ranking());
  whole.Add(OneColumn({0.35f, 0.8f}, {true, true}));
  EXPECT_EQ(whole.columns, 1);
  EXPECT_DOUBLE_EQ(RocAuc(whole), 0.75);
}

TEST(RankingTest, TakesMemoryForEachScoreAndOneColumnInOrder) {
  EXPECT_EQ(Ranking::MemoryBytes(1000, 1), 16000);
  EXPECT_EQ(Ranking::MemoryBytes(1000, 3), 32000);
  EXPECT_EQ(Ranking::MemoryBytes(1000, 0), 0);
}

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
