#include "engine/model/operators/objective.h"

#include <ATen/ATen.h>

#include <cmath>
#include <vector>

#include "engine/base/random.h"
#include "engine/model/runtime/torch_boundary.h"
#include "engine/store/labels.h"
#include "engine/train/metric.h"
#include "gtest/gtest.h"

namespace hearth::model {
namespace {

using store::LabelKind;
using store::Labels;

// Labels of `kind`, and the same labels as LibTorch's losses take them.
struct Example {
  at::Tensor scores;
  Labels labels;
  at::Tensor expected;
};

Example MakeExample(LabelKind kind, int64_t rows, int64_t width) {
  RandomStream random(static_cast<uint64_t>(rows * 1000 + width),
                      RandomPurpose::kGenerator);
  Example example;
  example.scores = at::empty({rows, width});
  example.expected = at::empty({rows, width});
  std::vector<float> targets;
  std::vector<uint8_t> bits(
      static_cast<size_t>(rows * store::MultiLabelRowBytes(width)));
  const auto set = [&](int64_t row, int64_t bit) {
    bits[static_cast<size_t>(row * store::MultiLabelRowBytes(width) +
                             bit / 8)] |= static_cast<uint8_t>(1 << (bit % 8));
  };
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < width; ++column) {
      example.scores[row][column] = 20 * random.UniformFloat() - 10;
      float target = 6 * random.UniformFloat() - 3;
      if (kind == LabelKind::kMultiLabel) {
        target = target > 0 ? 1 : 0;
        if (target > 0) set(row, column);
      }
      targets.push_back(target);
      example.expected[row][column] = target;
    }
    set(row, width);
  }
  example.labels = kind == LabelKind::kMultiLabel
                       ? Labels::MultiLabel(bits, rows, width)
                       : Labels::Targets(targets, rows, width);
  return example;
}

class MeanLossTest : public ::testing::TestWithParam<LabelKind> {
 protected:
  static at::Tensor Reference(const at::Tensor& scores,
                              const at::Tensor& labels) {
    return GetParam() == LabelKind::kMultiLabel
               ? at::binary_cross_entropy_with_logits(scores, labels)
               : at::mse_loss(scores, labels);
  }
};

TEST_P(MeanLossTest, AgreesWithTorchsAutograd) {
  for (const int64_t rows : {1, 31, 200}) {
    for (const int64_t width : {1, 7, 8, 9, 40}) {
      const Example example = MakeExample(GetParam(), rows, width);
      const at::Tensor ours = example.scores.clone().requires_grad_();
      const at::Tensor theirs = example.scores.to(at::kDouble).requires_grad_();
      const at::Tensor loss = Loss(ours, example.labels.view());
      const at::Tensor expected =
          Reference(theirs, example.expected.to(at::kDouble));
      (loss * 3).backward();
      (expected * 3).backward();
      EXPECT_EQ(loss.dim(), 0);
      EXPECT_TRUE(at::allclose(loss.to(at::kDouble), expected, 1e-5, 1e-7))
          << rows << " x " << width << ": " << loss << expected;
      EXPECT_TRUE(
          at::allclose(ours.grad().to(at::kDouble), theirs.grad(), 1e-4, 1e-8))
          << rows << " x " << width;
    }
  }
}

TEST_P(MeanLossTest, ThreadsChangeNoBit) {
  const Example example = MakeExample(GetParam(), 1000, 17);
  at::Tensor first_loss;
  at::Tensor first_gradient;
  for (const int threads : {1, 2, 3, 5}) {
    const ThreadCount scope(threads);
    const at::Tensor scores = example.scores.clone().requires_grad_();
    const at::Tensor loss = Loss(scores, example.labels.view());
    loss.backward();
    if (threads == 1) {
      first_loss = loss;
      first_gradient = scores.grad();
    }
    EXPECT_TRUE(at::equal(loss, first_loss)) << threads;
    EXPECT_TRUE(at::equal(scores.grad(), first_gradient)) << threads;
  }
}

TEST_P(MeanLossTest, NaNComesThrough) {
  Example example = MakeExample(GetParam(), 3, 4);
  example.scores[1][2] = std::nan("");
  EXPECT_TRUE(
      std::isnan(Loss(example.scores, example.labels.view()).item<float>()));
}

INSTANTIATE_TEST_SUITE_P(Kinds, MeanLossTest,
                         ::testing::Values(LabelKind::kMultiLabel,
                                           LabelKind::kTargets),
                         [](const auto& info) {
                           return store::Name(info.param);
                         });

TEST(LossTest, LogisticLossOverflowsForNoScore) {
  const at::Tensor scores = at::tensor({1e30f, -1e30f, 1000.0f, -1000.0f})
                                .view({2, 2})
                                .requires_grad_();
  // Row 0 is right in both columns, row 1 wrong in both.
  const Labels labels = Labels::MultiLabel({0b101, 0b110}, 2, 2);
  const at::Tensor loss = Loss(scores, labels.view());
  EXPECT_FLOAT_EQ(loss.item<float>(), 500);
  loss.backward();
  EXPECT_TRUE(at::equal(scores.grad(),
                        at::tensor({0.0f, 0.0f, 0.25f, -0.25f}).view({2, 2})));
}

TEST(LossTest, ClassesAreTorchsOwn) {
  const at::Tensor scores = MakeExample(LabelKind::kTargets, 5, 3).scores;
  const Labels labels = Labels::Classes({0, 1, 2, 1, 0}, 3);
  EXPECT_TRUE(at::equal(
      Loss(scores, labels.view()),
      at::cross_entropy_loss(scores, at::tensor({0, 1, 2, 1, 0}, at::kLong))));
}

TEST(LossTest, WeightsOfClassesAreTorchsOwn) {
  const at::Tensor scores = MakeExample(LabelKind::kTargets, 5, 3).scores;
  const Labels labels = Labels::Classes({0, 1, 2, 1, 0}, 3);
  const std::vector<float> weights = {0.5, 2, 7};
  const at::Tensor ours = scores.clone().requires_grad_();
  const at::Tensor theirs = scores.to(at::kDouble).requires_grad_();
  const at::Tensor loss = Loss(ours, labels.view(), weights);
  // Weighted mean, written out.
  const at::Tensor each = -at::log_softmax(theirs, 1);
  const at::Tensor expected = (0.5 * (each[0][0] + each[4][0]) +
                               2 * (each[1][1] + each[3][1]) + 7 * each[2][2]) /
                              12;
  loss.backward();
  expected.backward();
  EXPECT_TRUE(at::allclose(loss.to(at::kDouble), expected, 1e-5, 1e-7));
  EXPECT_TRUE(
      at::allclose(ours.grad().to(at::kDouble), theirs.grad(), 1e-4, 1e-7));
  EXPECT_EQ(LossWeight(labels.view(), weights), 12);
  EXPECT_EQ(LossWeight(labels.view(), {}), 5);
}

// The example's labels, some of them unknown: one third of each row, and the
// first label of all rows but the first. `known` is 1 for the others.
Labels PartialOf(const Example& example, at::Tensor& known) {
  const int64_t rows = example.scores.size(0);
  const int64_t width = example.scores.size(1);
  const int64_t full = store::MultiLabelRowBytes(width);
  const int64_t row_bytes = store::MultiLabelRowBytes(width, true);
  std::vector<uint8_t> bits(static_cast<size_t>(rows * row_bytes));
  known = at::zeros({rows, width});
  for (int64_t row = 0; row < rows; ++row) {
    uint8_t* const begin = bits.data() + row * row_bytes;
    for (int64_t column = 0; column < width; ++column) {
      if ((row + column) % 3 == 2 || (row > 0 && column == 0)) continue;
      known[row][column] = 1;
      const auto bit = static_cast<uint8_t>(1 << (column % 8));
      begin[full + column / 8] |= bit;
      if (store::HasBit(example.labels.view().BitRow(row), column)) {
        begin[column / 8] |= bit;
      }
    }
    begin[width / 8] |= static_cast<uint8_t>(1 << (width % 8));
  }
  return Labels::MultiLabel(bits, rows, width, true);
}

TEST(LossTest, UnknownLabelsCountNowhere) {
  for (const std::vector<float>& weights :
       {std::vector<float>(), std::vector<float>(9, 2.5f)}) {
    const Example example = MakeExample(LabelKind::kMultiLabel, 31, 9);
    at::Tensor known;
    const Labels labels = PartialOf(example, known);
    ASSERT_TRUE(labels.view().ValidateLabeled().ok());
    const at::Tensor ours = example.scores.clone().requires_grad_();
    const at::Tensor theirs = example.scores.to(at::kDouble).requires_grad_();
    const at::Tensor loss = Loss(ours, labels.view(), weights);
    const at::Tensor mask = known.to(at::kBool);
    const at::Tensor weight =
        weights.empty() ? at::Tensor() : at::full({}, weights[0], at::kDouble);
    const at::Tensor expected = at::binary_cross_entropy_with_logits(
        theirs.masked_select(mask),
        example.expected.to(at::kDouble).masked_select(mask), {}, weight);
    loss.backward();
    expected.backward();
    EXPECT_TRUE(at::allclose(loss.to(at::kDouble), expected, 1e-5, 1e-7))
        << loss << expected;
    EXPECT_TRUE(
        at::allclose(ours.grad().to(at::kDouble), theirs.grad(), 1e-4, 1e-8));
    // Means of parts of a batch are combined by this weight.
    EXPECT_EQ(LossWeight(labels.view(), weights), known.sum().item<double>());
  }
}

TEST(TallyOfTest, UnknownLabelsCountNowhere) {
  const at::Tensor scores =
      at::tensor({1.0f, -1.0f, 0.0f, 2.0f, 5.0f, -3.0f}).view({2, 3});
  // Node 0 has label 0, and its label 2 is unknown; node 1 has label 0, and its
  // label 1 is unknown.
  const Labels labels =
      Labels::MultiLabel({0b1001, 0b011, 0b1001, 0b101}, 2, 3, true);
  const train::Tally tally = TallyOf(scores, labels.view());
  EXPECT_EQ(tally.true_positives, 2);
  EXPECT_EQ(tally.false_positives, 0);
  EXPECT_EQ(tally.false_negatives, 0);
  const train::Ranking ranking = Rank(scores, labels.view());
  ASSERT_EQ(ranking.scores.size(), 6);
  EXPECT_FALSE(ranking.scores[2].is_known);
  EXPECT_FALSE(ranking.scores[4].is_known);
  EXPECT_TRUE(ranking.scores[5].is_known);
}

TEST(LossTest, WeightsOfLabelsAreTorchsOwn) {
  const Example example = MakeExample(LabelKind::kMultiLabel, 31, 9);
  std::vector<float> weights;
  for (int i = 0; i < 9; ++i) weights.push_back(0.25f * (1 + i));
  const at::Tensor ours = example.scores.clone().requires_grad_();
  const at::Tensor theirs = example.scores.to(at::kDouble).requires_grad_();
  const at::Tensor loss = Loss(ours, example.labels.view(), weights);
  const at::Tensor expected = at::binary_cross_entropy_with_logits(
      theirs, example.expected.to(at::kDouble), {},
      at::tensor(weights).to(at::kDouble));
  loss.backward();
  expected.backward();
  EXPECT_TRUE(at::allclose(loss.to(at::kDouble), expected, 1e-5, 1e-7));
  EXPECT_TRUE(
      at::allclose(ours.grad().to(at::kDouble), theirs.grad(), 1e-4, 1e-8));
  // The mean is still over rows.
  EXPECT_EQ(LossWeight(example.labels.view(), weights), 31);
}

// Differences of the loss itself, in single precision.
TEST(LossTest, GradientsOfWeightedLossesAreItsDifferences) {
  for (const LabelKind kind : {LabelKind::kClasses, LabelKind::kMultiLabel}) {
    const Example example = MakeExample(LabelKind::kMultiLabel, 4, 3);
    const Labels labels = kind == LabelKind::kClasses
                              ? Labels::Classes({2, 0, 1, 1}, 3)
                              : example.labels;
    const std::vector<float> weights = {0.5, 3, 1.5};
    const at::Tensor scores = (example.scores / 5).requires_grad_();
    Loss(scores, labels.view(), weights).backward();
    constexpr float kStep = 0.03;
    for (int64_t i = 0; i < scores.numel(); ++i) {
      const auto moved = [&](float step) {
        at::Tensor other = scores.detach().clone();
        other.view(-1)[i] += step;
        return Loss(other, labels.view(), weights).item<double>();
      };
      EXPECT_NEAR(scores.grad().view(-1)[i].item<double>(),
                  (moved(kStep) - moved(-kStep)) / (2 * kStep), 1e-4)
          << store::Name(kind) << " " << i;
    }
  }
}

TEST(LossTest, WeightsOfOneChangeNothing) {
  const std::vector<float> ones(9, 1);
  const Example labels = MakeExample(LabelKind::kMultiLabel, 31, 9);
  EXPECT_TRUE(at::equal(Loss(labels.scores, labels.labels.view(), ones),
                        Loss(labels.scores, labels.labels.view())));
}

TEST(RankTest, TwoClassesAreRankedByTheirDifference) {
  const at::Tensor scores =
      at::tensor({1.0f, 3.0f, 50.0f, 20.0f, 0.0f, 0.0f}).view({3, 2});
  const train::Ranking ranking =
      Rank(scores, Labels::Classes({1, 0, 1}, 2).view());
  EXPECT_EQ(ranking.columns, 1);
  ASSERT_EQ(ranking.scores.size(), 3);
  EXPECT_EQ(ranking.scores[0].score, 2);
  EXPECT_EQ(ranking.scores[1].score, -30);
  EXPECT_EQ(ranking.scores[2].score, 0);
  EXPECT_TRUE(ranking.scores[0].is_positive);
  EXPECT_FALSE(ranking.scores[1].is_positive);
}

TEST(RankTest, SeveralClassesAreRankedByTheirProbabilities) {
  const at::Tensor scores = MakeExample(LabelKind::kTargets, 4, 3).scores;
  const train::Ranking ranking =
      Rank(scores, Labels::Classes({0, 1, 2, 2}, 3).view());
  const at::Tensor expected = at::log_softmax(scores.to(at::kDouble), 1);
  EXPECT_EQ(ranking.columns, 3);
  ASSERT_EQ(ranking.scores.size(), 12);
  for (int64_t i = 0; i < 12; ++i) {
    const train::RankedScore& ranked = ranking.scores[static_cast<size_t>(i)];
    EXPECT_NEAR(ranked.score, expected.view(-1)[i].item<double>(), 1e-5);
    EXPECT_EQ(ranked.is_positive, i == 0 || i == 4 || i == 8 || i == 11);
  }
}

TEST(RankTest, LabelsAreRankedByTheirScores) {
  const at::Tensor scores =
      at::tensor({1.0f, -1.0f, 0.0f, 2.0f, 5.0f, -3.0f}).view({2, 3});
  const train::Ranking ranking =
      Rank(scores, Labels::MultiLabel({0b1101, 0b1001}, 2, 3).view());
  EXPECT_EQ(ranking.columns, 3);
  ASSERT_EQ(ranking.scores.size(), 6);
  EXPECT_EQ(ranking.scores[4].score, 5);
  EXPECT_TRUE(ranking.scores[2].is_positive);
  EXPECT_FALSE(ranking.scores[4].is_positive);
}

TEST(RankTest, NaNComesThrough) {
  for (const int64_t classes : {2, 3}) {
    at::Tensor scores = at::zeros({2, classes});
    scores[1][classes - 1] = std::nan("");
    EXPECT_TRUE(std::isnan(
        train::RocAuc(Rank(scores, Labels::Classes({0, 1}, classes).view()))));
  }
}

TEST(TallyOfTest, CountsClassesByTheirFirstHighestScore) {
  const at::Tensor scores =
      at::tensor({1.0f, 2.0f, 3.0f, 3.0f, 0.0f, -1.0f}).view({3, 2});
  const train::Tally tally =
      TallyOf(scores, Labels::Classes({1, 0, 1}, 2).view());
  EXPECT_EQ(tally.num_predictions, 3);
  EXPECT_EQ(tally.num_correct, 2);
}

TEST(TallyOfTest, CountsPairsOfNodeAndLabel) {
  const at::Tensor scores =
      at::tensor({1.0f, -1.0f, 0.0f, 2.0f, 5.0f, -3.0f}).view({2, 3});
  // Node 0 has labels 0 and 2, node 1 has label 0; a score of 0 predicts
  // nothing.
  const train::Tally tally =
      TallyOf(scores, Labels::MultiLabel({0b1101, 0b1001}, 2, 3).view());
  EXPECT_EQ(tally.true_positives, 2);
  EXPECT_EQ(tally.false_positives, 1);
  EXPECT_EQ(tally.false_negatives, 1);
  EXPECT_EQ(tally.Value(train::Metric::kMicroF1), 4.0 / 6);
}

TEST(TallyOfTest, SumsSquaredErrors) {
  const at::Tensor scores = at::tensor({1.0f, 2.0f, 3.0f, 4.0f}).view({2, 2});
  const train::Tally tally =
      TallyOf(scores, Labels::Targets({0, 2, 5, 4.5}, 2, 2).view());
  EXPECT_EQ(tally.num_predictions, 4);
  EXPECT_EQ(tally.squared_error, 1 + 4 + 0.25);
}

}  // namespace
}  // namespace hearth::model
