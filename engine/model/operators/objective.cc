#include "engine/model/operators/objective.h"

#include <ATen/Parallel.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mse_loss.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

#include "engine/model/runtime/device_streams.h"

namespace hearth::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// Loss of one score, and its derivative.
struct Term {
  double loss;
  float slope;
};

// Labels, and factors of the loss of labels that rows have; empty = all are 1.
struct WeightedLabels {
  store::LabelsView labels;
  absl::Span<const float> weights;
};

// log(1 + exp(x)) - x y, in a form that never overflows.
struct LogisticLoss {
  static Term Of(float score, const WeightedLabels& of, int64_t row,
                 int64_t column) {
    if (!of.labels.IsKnown(row, column)) return {0, 0};
    const float label = store::HasBit(of.labels.BitRow(row), column) ? 1 : 0;
    const float decay = std::exp(-std::abs(score));
    const float logistic = (score >= 0 ? 1 : decay) / (1 + decay);
    const Term term = {
        std::max(score, 0.0f) - score * label + std::log1p(decay),
        logistic - label};
    if (of.weights.empty() || label == 0) return term;
    const float weight = of.weights[static_cast<size_t>(column)];
    return {term.loss * double{weight}, term.slope * weight};
  }
};

struct SquaredError {
  static Term Of(float score, const WeightedLabels& of, int64_t row,
                 int64_t column) {
    const store::LabelsView& labels = of.labels;
    const float error = score - labels.TargetRow(row)[column];
    return {double{error} * error, 2 * error};
  }
};

// Mean of a loss that is a sum over all scores. Its gradient costs little more,
// so forward computes both. Unlike LibTorch's, it adds in an order that does
// not depend on threads.
template <typename Terms>
class MeanLossFunction : public Function<MeanLossFunction<Terms>> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& scores,
                            const WeightedLabels& labels) {
    const int64_t rows = scores.size(0);
    const int64_t width = scores.size(1);
    const auto count = static_cast<double>(
        labels.labels.partial ? labels.labels.NumKnown() : scores.numel());
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

// Class weights as LibTorch takes them; undefined where all classes weigh the
// same.
at::Tensor Weights(absl::Span<const float> weights) {
  if (weights.empty()) return {};
  at::Tensor tensor =
      at::empty({static_cast<int64_t>(weights.size())}, at::kFloat);
  std::copy(weights.begin(), weights.end(), tensor.mutable_data_ptr<float>());
  return tensor;
}

// [rows, width]: 1 where a row has a label.
at::Tensor LabelMatrix(const store::LabelsView& labels, int64_t width) {
  at::Tensor matrix = at::empty({labels.num_rows, width}, at::kFloat);
  auto* value = matrix.mutable_data_ptr<float>();
  for (int64_t row = 0; row < labels.num_rows; ++row) {
    for (int64_t column = 0; column < width; ++column) {
      *value++ = store::HasBit(labels.BitRow(row), column) ? 1 : 0;
    }
  }
  return matrix;
}

// [rows, width]: 1 where a label is known.
at::Tensor KnownMatrix(const store::LabelsView& labels, int64_t width) {
  at::Tensor matrix = at::empty({labels.num_rows, width}, at::kFloat);
  auto* value = matrix.mutable_data_ptr<float>();
  for (int64_t row = 0; row < labels.num_rows; ++row) {
    for (int64_t column = 0; column < width; ++column) {
      *value++ = labels.IsKnown(row, column) ? 1 : 0;
    }
  }
  return matrix;
}

// Loss by LibTorch's operators, on the device of the scores.
at::Tensor LossOnDevice(const at::Tensor& scores,
                        const store::LabelsView& labels,
                        absl::Span<const float> weights) {
  const at::Device device = scores.device();
  const int64_t width = scores.size(1);
  at::Tensor weight = Weights(weights);
  if (weight.defined()) weight = ToDevice(weight, device);
  switch (labels.kind) {
    case store::LabelKind::kClasses:
      break;
    case store::LabelKind::kMultiLabel:
      if (labels.partial) {
        return at::binary_cross_entropy_with_logits(
                   scores, ToDevice(LabelMatrix(labels, width), device),
                   ToDevice(KnownMatrix(labels, width), device),
                   /*pos_weight=*/weight, at::Reduction::Sum)
            .div(static_cast<double>(labels.NumKnown()));
      }
      return at::binary_cross_entropy_with_logits(
          scores, ToDevice(LabelMatrix(labels, width), device), /*weight=*/{},
          /*pos_weight=*/weight);
    case store::LabelKind::kTargets:
      return at::mse_loss(
          scores,
          ToDevice(at::from_blob(const_cast<float*>(labels.TargetRow(0)),
                                 {labels.num_rows, width}, at::kFloat),
                   device));
  }
  return at::cross_entropy_loss(
      scores, ToDevice(Classes(labels.classes), device), weight);
}

// Calls `visit(score, row, column)` for each score, row by row.
template <typename F>
void ForScores(const at::Tensor& scores, const F& visit) {
  const auto* score = scores.const_data_ptr<float>();
  for (int64_t row = 0; row < scores.size(0); ++row) {
    for (int64_t column = 0; column < scores.size(1); ++column) {
      visit(*score++, row, column);
    }
  }
}

train::Tally TallyOfClasses(const at::Tensor& scores,
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

train::Tally TallyOfLabels(const at::Tensor& scores,
                           const store::LabelsView& labels) {
  train::Tally tally{.num_predictions = labels.num_rows};
  ForScores(scores, [&](float score, int64_t row, int64_t column) {
    if (!labels.IsKnown(row, column)) return;
    const bool predicted = score > 0;
    const bool has = store::HasBit(labels.BitRow(row), column);
    tally.true_positives += predicted && has;
    tally.false_positives += predicted && !has;
    tally.false_negatives += !predicted && has;
  });
  return tally;
}

train::Tally TallyOfTargets(const at::Tensor& scores,
                            const store::LabelsView& labels) {
  train::Tally tally{.num_predictions = scores.numel()};
  ForScores(scores, [&](float score, int64_t row, int64_t column) {
    const double error = double{score} - labels.TargetRow(row)[column];
    tally.squared_error += error * error;
  });
  return tally;
}

train::Ranking RankClasses(const at::Tensor& scores,
                           const store::LabelsView& labels) {
  const int64_t classes = scores.size(1);
  train::Ranking ranking{
      .columns = train::RankedColumns(store::LabelKind::kClasses, classes)};
  ranking.scores.reserve(static_cast<size_t>(scores.size(0) * ranking.columns));
  const auto* row = scores.const_data_ptr<float>();
  for (const int32_t label : labels.classes) {
    if (classes == 2) {
      ranking.scores.push_back({row[1] - row[0], label == 1});
    } else {
      const double highest = *std::max_element(row, row + classes);
      double sum = 0;
      for (int64_t c = 0; c < classes; ++c) sum += std::exp(row[c] - highest);
      const double log_sum = highest + std::log(sum);
      for (int64_t c = 0; c < classes; ++c) {
        ranking.scores.push_back(
            {static_cast<float>(row[c] - log_sum), label == c});
      }
    }
    row += classes;
  }
  return ranking;
}

}  // namespace

at::Tensor Loss(const at::Tensor& scores, const store::LabelsView& labels,
                absl::Span<const float> weights) {
  if (!scores.is_cpu()) return LossOnDevice(scores, labels, weights);
  const WeightedLabels weighted = {labels, weights};
  switch (labels.kind) {
    case store::LabelKind::kClasses:
      break;
    case store::LabelKind::kMultiLabel:
      return MeanLossFunction<LogisticLoss>::apply(scores, weighted);
    case store::LabelKind::kTargets:
      return MeanLossFunction<SquaredError>::apply(scores, weighted);
  }
  return at::cross_entropy_loss(scores, Classes(labels.classes),
                                Weights(weights));
}

double LossWeight(const store::LabelsView& labels,
                  absl::Span<const float> weights) {
  if (labels.partial) return static_cast<double>(labels.NumKnown());
  if (weights.empty() || labels.kind != store::LabelKind::kClasses) {
    return static_cast<double>(labels.num_rows);
  }
  double sum = 0;
  for (const int32_t label : labels.classes) {
    sum += weights[static_cast<size_t>(label)];
  }
  return sum;
}

train::Tally TallyOf(const at::Tensor& scores,
                     const store::LabelsView& labels) {
  switch (labels.kind) {
    case store::LabelKind::kClasses:
      return TallyOfClasses(scores, labels);
    case store::LabelKind::kMultiLabel:
      return TallyOfLabels(scores, labels);
    case store::LabelKind::kTargets:
      return TallyOfTargets(scores, labels);
  }
  return {};
}

train::Ranking Rank(const at::Tensor& scores, const store::LabelsView& labels) {
  if (labels.kind == store::LabelKind::kClasses) {
    return RankClasses(scores, labels);
  }
  train::Ranking ranking{.columns = scores.size(1)};
  ranking.scores.reserve(static_cast<size_t>(scores.numel()));
  ForScores(scores, [&](float score, int64_t row, int64_t column) {
    ranking.scores.push_back({score, store::HasBit(labels.BitRow(row), column),
                              labels.IsKnown(row, column)});
  });
  return ranking;
}

}  // namespace hearth::model
