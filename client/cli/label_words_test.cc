#include "client/cli/label_words.h"

#include <gtest/gtest.h>

#include <cmath>

namespace hearth::cli {
namespace {

TEST(LabelWords, CountWhatTheLabelsAre) {
  EXPECT_EQ(LabelWords(v1::CLASSES, 45), "45 classes");
  EXPECT_EQ(LabelWords(v1::CLASSES, 1), "1 class");
  EXPECT_EQ(LabelWords(v1::MULTI_LABEL, 1203), "1,203 labels");
  EXPECT_EQ(LabelWords(v1::TARGETS, 1), "1 target");
  EXPECT_EQ(LabelWords(v1::TARGETS, 2), "2 targets");
  EXPECT_EQ(LabelWords(v1::CLASSES, 0), "no labels");
}

TEST(MetricWords, AreThoseOfTheField) {
  EXPECT_EQ(MetricWords("accuracy"), "accuracy");
  EXPECT_EQ(MetricWords("micro_f1"), "micro-F1");
  EXPECT_EQ(MetricWords("mse"), "mean squared error");
  EXPECT_EQ(MetricWords("roc_auc"), "ROC-AUC");
  EXPECT_EQ(MetricWords("average_precision"), "average precision");
  EXPECT_EQ(MetricWords("new\x1b"), "new\\x1b");
}

TEST(FormatMetric, ErrorsMayBeSmallOrLarge) {
  EXPECT_EQ(FormatMetric("accuracy", 0.86), "0.860");
  EXPECT_EQ(FormatMetric("micro_f1", 1), "1.000");
  EXPECT_EQ(FormatMetric("mse", 0.0000123456789), "1.23457e-05");
  EXPECT_EQ(FormatMetric("mse", 4521.25), "4521.25");
  EXPECT_EQ(FormatMetric("roc_auc", 0.9876543), "0.988");
  EXPECT_EQ(FormatMetric("average_precision", 1), "1.000");
  EXPECT_EQ(FormatMetric("roc_auc", std::nan("")), "not defined");
}

}  // namespace
}  // namespace hearth::cli
