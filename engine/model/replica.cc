#include "engine/model/replica.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <torch/csrc/autograd/autograd.h>

#include <optional>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/gradient_norm.h"
#include "engine/model/matrix_product.h"
#include "engine/model/objective.h"
#include "engine/train/learning_rate.h"
#include "engine/train/metric.h"

namespace hearth::model {
namespace {

constexpr char kModelPrefix[] = "model.";
constexpr char kOptimizerPrefix[] = "optimizer.";

}  // namespace

Replica::Replica(const train::TrainOptions& options,
                 const train::ModelShape& shape, const at::Device& device)
    : options_(options),
      shape_(shape),
      weights_(options.class_weights.Resolve(shape.class_counts)),
      precision_(ResolvedPrecision(options.precision)),
      network_(options, shape, device),
      optimizer_(NewOptimizer(options.optimizer,
                              train::LearningRate(options, shape),
                              network_.parameters())) {
  for (const NamedTensor& parameter : network_.parameters()) {
    parameters_.push_back(parameter.tensor);
  }
}

Replica::Derivative Replica::Differentiate(const train::BatchView& batch,
                                           const train::StepPosition& position,
                                           float weight) const {
  const ProductPrecision precision(precision_);
  const at::Tensor scores = network_.Forward(batch, position);
  const at::Tensor loss = Loss(scores, batch.labels, weights_);
  Derivative derivative = {
      .result = scores.is_cpu()
                    ? Result(batch, scores, loss)
                    : train::BatchResult{.num_seeds = batch.sample.num_seeds,
                                         .weight = LossWeight(batch)},
      .loss = loss.detach(),
      .gradients = torch::autograd::grad(
          {loss}, parameters_, {at::full({}, weight, loss.options())})};
  // The fused optimizers walk a gradient as its parameter lies in memory; that
  // of a parameter which was used transposed may lie otherwise.
  for (at::Tensor& gradient : derivative.gradients) {
    gradient = gradient.contiguous();
  }
  return derivative;
}

void Replica::Step(const std::vector<at::Tensor>& gradients) {
  if (options_.clip_norm > 0) {
    optimizer_->Step(ClipNorm(gradients, options_.clip_norm));
  } else {
    optimizer_->Step(gradients);
  }
}

train::BatchResult Replica::Evaluate(const train::BatchView& batch) const {
  const at::NoGradGuard no_gradients;
  const ProductPrecision precision(precision_);
  const at::Tensor scores = network_.Forward(batch, std::nullopt);
  const at::Tensor loss = Loss(scores, batch.labels, weights_);
  const at::Tensor judged = scores.cpu();
  train::BatchResult result = Result(batch, judged, loss);
  if (train::IsRanking(options_.MetricFor(shape_.label_kind))) {
    result.tally.ranking = Rank(judged, batch.labels);
  }
  return result;
}

double Replica::LossWeight(const train::BatchView& batch) const {
  return model::LossWeight(batch.labels, weights_);
}

train::BatchResult Replica::Result(const train::BatchView& batch,
                                   const at::Tensor& scores,
                                   const at::Tensor& loss) const {
  return {.loss = loss.item<float>(),
          .num_seeds = batch.sample.num_seeds,
          .weight = LossWeight(batch),
          .tally = Judge(scores, batch.labels)};
}

store::TensorMap Replica::Save() const {
  store::TensorMap state;
  CopyOut(kModelPrefix, network_.parameters(), state);
  CopyOut(kOptimizerPrefix, optimizer_->state(), state);
  return state;
}

absl::Status Replica::Load(const store::TensorMap& state) {
  HEARTH_RETURN_IF_ERROR(CheckFits(kModelPrefix, network_.parameters(), state));
  HEARTH_RETURN_IF_ERROR(
      CheckFits(kOptimizerPrefix, optimizer_->state(), state));
  HEARTH_RETURN_IF_ERROR(CheckNothingElse(state));
  CopyIn(kModelPrefix, state, network_.parameters());
  CopyIn(kOptimizerPrefix, state, optimizer_->state());
  return absl::OkStatus();
}

store::SafeTensors Replica::Export() const {
  store::SafeTensors exported;
  CopyOut("", network_.parameters(), exported.tensors);
  CopyOut("", network_.constants(), exported.tensors);
  exported.metadata["config"] = ModelConfig(options_, shape_);
  return exported;
}

// DATA_LOSS naming a tensor that this model does not have. REQUIRES: those that
// it has are there.
absl::Status Replica::CheckNothingElse(const store::TensorMap& state) const {
  const store::TensorMap known = Save();
  for (const auto& [name, tensor] : state) {
    if (known.count(name) == 0) {
      return absl::DataLossError(absl::StrCat("unexpected tensor ", name));
    }
  }
  return absl::OkStatus();
}

}  // namespace hearth::model
