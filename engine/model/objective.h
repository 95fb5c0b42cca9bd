#ifndef HEARTH_ENGINE_MODEL_OBJECTIVE_H_
#define HEARTH_ENGINE_MODEL_OBJECTIVE_H_

#include <ATen/core/Tensor.h>

#include "engine/store/labels.h"
#include "engine/train/metric.h"

/// The loss that a model is trained for, and its metric. `scores` are [rows,
/// width] float32, contiguous, for labels of as many rows and columns, all of
/// them labeled. Threads change no result.

namespace hearth::model {

/// The mean loss, a scalar, differentiable by the scores:
///
/// * kClasses: cross-entropy of the softmax, over rows;
/// * kMultiLabel: cross-entropy of the logistic function of each score, over
///   rows and labels (torch.nn.BCEWithLogitsLoss);
/// * kTargets: squared difference, over rows and targets (torch.nn.MSELoss).
at::Tensor Loss(const at::Tensor& scores, const store::LabelsView& labels);

/// The counts that the metric for labels of this kind is computed from. The
/// class of a row is the highest column, the first of equals.
train::Tally Judge(const at::Tensor& scores, const store::LabelsView& labels);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_OBJECTIVE_H_
