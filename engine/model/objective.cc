#include "engine/model/objective.h"

#include <ATen/Parallel.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace hearth::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// One score's part of the loss, and its derivative.
struct Term {
  double loss;
  float slope;
};

// log(1 + exp(x)) - x y, in a form that overflows for no x.
struct LogisticLoss {
  static Term Of(float score, const store::LabelsView& labels, int64_t row,
                 int64_t column) {
    const float label = store::HasBit(labels.BitRow(row), column) ? 1 : 0;
    const float decay = std::exp(-std::abs(score));
    const float logistic = (score >= 0 ? 1 : decay) / (1 + decay);
    return {std::max(score, 0.0f) - score * label + std::log1p(decay),
            logistic - label};
  }
};

struct SquaredError {
  static Term Of(float score, const store::LabelsView& labels, int64_t row,
                 int64_t column) {
    const float error = score - labels.TargetRow(row)[column];
    return {double{error} * error, 2 * error};
  }
};

// The mean of a loss that is a sum over all scores. Its gradient costs little
// beside it, so that both are computed in the forward pass. Unlike LibTorch's,
// adds up in an order that threads do not change.
template <typename Terms>
class MeanLossFunction : public Function<MeanLossFunction<Terms>> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& scores,
                            const store::LabelsView& labels) {
    const int64_t rows = scores.size(0);
    const int64_t width = scores.size(1);
    const auto count = static_cast<double>(scores.numel());
    const auto* score = scores.const_data_ptr<float>();
    const bool differentiate = scores.requires_grad();
    at::Tensor gradient =
        differentiate ? at::empty_like(scores) : at::empty({0}, at::kFloat);
    auto* slopes = gradient.mutable_data_ptr<float>();
    std::vector<double> sums(static_cast<size_t>(rows));
    at::parallel_for(
        0, rows, /*grain_size=*/16, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin * width; i < end * width; ++i) {
            const Term term = Terms::Of(score[i], labels, i / width, i % width);
            sums[static_cast<size_t>(i / width)] += term.loss;
            if (differentiate)
              slopes[i] = static_cast<float>(term.slope / count);
          }
        });
    context->save_for_backward({gradient});
    const double sum = std::accumulate(sums.begin(), sums.end(), 0.0);
    return at::full({}, sum / count, at::kFloat);
  }

  static variable_list backward(AutogradContext* context,
                                variable_list gradients) {
    return {context->get_saved_variables()[0].mul(gradients[0]), at::Tensor()};
  }
};

at::Tensor Classes(absl::Span<const int32_t> labels) {
  at::Tensor classes =
      at::empty({static_cast<int64_t>(labels.size())}, at::kLong);
  std::copy(labels.begin(), labels.end(), classes.mutable_data_ptr<int64_t>());
  return classes;
}

// Calls `judge(score, row, column)` for each score, row by row.
template <typename F>
void ForScores(const at::Tensor& scores, const F& judge) {
  const auto* score = scores.const_data_ptr<float>();
  for (int64_t row = 0; row < scores.size(0); ++row) {
    for (int64_t column = 0; column < scores.size(1); ++column) {
      judge(*score++, row, column);
    }
  }
}

train::Tally JudgeClasses(const at::Tensor& scores,
                          const store::LabelsView& labels) {
  const auto* row = scores.const_data_ptr<float>();
  train::Tally tally{.num_predictions = labels.num_rows};
  for (const int32_t label : labels.classes) {
    const auto* end = row + scores.size(1);
    tally.num_correct += std::max_element(row, end) - row == label;
    row = end;
  }
  return tally;
}

train::Tally JudgeLabels(const at::Tensor& scores,
                         const store::LabelsView& labels) {
  train::Tally tally{.num_predictions = labels.num_rows};
  ForScores(scores, [&](float score, int64_t row, int64_t column) {
    const bool predicted = score > 0;
    const bool has = store::HasBit(labels.BitRow(row), column);
    tally.true_positives += predicted && has;
    tally.false_positives += predicted && !has;
    tally.false_negatives += !predicted && has;
  });
  return tally;
}

train::Tally JudgeTargets(const at::Tensor& scores,
                          const store::LabelsView& labels) {
  train::Tally tally{.num_predictions = scores.numel()};
  ForScores(scores, [&](float score, int64_t row, int64_t column) {
    const double error = double{score} - labels.TargetRow(row)[column];
    tally.squared_error += error * error;
  });
  return tally;
}

}  // namespace

at::Tensor Loss(const at::Tensor& scores, const store::LabelsView& labels) {
  switch (labels.kind) {
    case store::LabelKind::kClasses:
      break;
    case store::LabelKind::kMultiLabel:
      return MeanLossFunction<LogisticLoss>::apply(scores, labels);
    case store::LabelKind::kTargets:
      return MeanLossFunction<SquaredError>::apply(scores, labels);
  }
  return at::cross_entropy_loss(scores, Classes(labels.classes));
}

train::Tally Judge(const at::Tensor& scores, const store::LabelsView& labels) {
  switch (labels.kind) {
    case store::LabelKind::kClasses:
      return JudgeClasses(scores, labels);
    case store::LabelKind::kMultiLabel:
      return JudgeLabels(scores, labels);
    case store::LabelKind::kTargets:
      return JudgeTargets(scores, labels);
  }
  return {};
}

}  // namespace hearth::model
