#ifndef HEARTH_ENGINE_MODEL_OPERATORS_OBJECTIVE_H_
#define HEARTH_ENGINE_MODEL_OPERATORS_OBJECTIVE_H_

#include <ATen/core/Tensor.h>

#include "absl/types/span.h"
#include "engine/store/labels.h"
#include "engine/train/metric.h"

/// The loss that a model is trained for, and its metric. `scores` are [rows,
/// width] float32, contiguous, for labels of as many rows and columns, all of
/// them labeled; for the loss on any device, for the rest on the processor.
/// Threads change no result.

namespace hearth::model {

/// The mean loss, a scalar, differentiable by the scores:
///
/// * kClasses: cross-entropy of the softmax, over rows;
/// * kMultiLabel: cross-entropy of the logistic function of each score, over
///   rows and those of their labels that are known
///   (torch.nn.BCEWithLogitsLoss);
/// * kTargets: squared difference, over rows and targets (torch.nn.MSELoss).
///
/// `weights` are empty or one for each column (train::ClassWeights): of
/// kClasses, those of the rows in the mean; of kMultiLabel, factors of the loss
/// of a label that a row has.
at::Tensor Loss(const at::Tensor& scores, const store::LabelsView& labels,
                absl::Span<const float> weights = {});

/// Weight of the rows together in Loss: means of parts of a batch, weighted so,
/// are the mean of the whole. The number of rows, but where classes have
/// weights; of partial labels, the number of those that are known.
double LossWeight(const store::LabelsView& labels,
                  absl::Span<const float> weights);

/// The counts that the metric for labels of this kind is computed from. The
/// class of a row is the highest column, the first of equals.
train::Tally Judge(const at::Tensor& scores, const store::LabelsView& labels);

/// The scores that metrics rank rows by: of two classes the log-odds of class
/// 1, of more the logarithm of each one's probability, of kMultiLabel those of
/// the labels. As exact as the scores: probabilities near 1 would be equal.
/// REQUIRES: labels of one of these kinds.
train::Ranking Rank(const at::Tensor& scores, const store::LabelsView& labels);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_OPERATORS_OBJECTIVE_H_
