#ifndef HEARTH_ENGINE_MODEL_OPERATORS_OBJECTIVE_H_
#define HEARTH_ENGINE_MODEL_OPERATORS_OBJECTIVE_H_

#include <ATen/core/Tensor.h>

#include "absl/types/span.h"
#include "engine/store/labels.h"
#include "engine/train/metric.h"

/// Loss of a model, and counts and scores for its metric. `scores` are [rows,
/// width] float32, contiguous, for labels of equally many rows and columns, all
/// rows labeled; on any device for the loss, on the processor for the rest.
/// Results do not depend on threads.

namespace hearth::model {

/// Mean loss, a scalar, differentiable by the scores:
///
/// * kClasses: cross-entropy of the softmax, over rows;
/// * kMultiLabel: cross-entropy of the logistic function of each score, over
///   rows and those of their labels that are known
///   (torch.nn.BCEWithLogitsLoss);
/// * kTargets: squared difference, over rows and targets (torch.nn.MSELoss).
///
/// `weights` are empty or one for each column (train::ClassWeights): for
/// kClasses, weights of the rows in the mean; for kMultiLabel, factors of the
/// loss of labels that rows have.
at::Tensor Loss(const at::Tensor& scores, const store::LabelsView& labels,
                absl::Span<const float> weights = {});

/// Sum of the rows' weights in Loss: with it, means of parts of a batch combine
/// to the mean of the batch. The number of rows without class weights; with
/// partial labels, the number of known labels.
double LossWeight(const store::LabelsView& labels,
                  absl::Span<const float> weights);

/// Counts from which the metric for labels of this kind is computed. The class
/// of a row is the column with the highest score, the first of equals.
train::Tally TallyOf(const at::Tensor& scores, const store::LabelsView& labels);

/// Scores by which metrics rank rows: for two classes the log-odds of class 1,
/// for more the logarithm of each class's probability, for kMultiLabel the
/// scores themselves. As exact as the scores; probabilities near 1 would be
/// equal. REQUIRES: labels of one of these kinds.
train::Ranking Rank(const at::Tensor& scores, const store::LabelsView& labels);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_OPERATORS_OBJECTIVE_H_
