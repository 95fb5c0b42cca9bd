#include "engine/model/step/replica.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "engine/model/operators/matrix_product.h"
#include "engine/model/operators/objective.h"
#include "engine/train/metric.h"
#include "engine/train/model_options.h"

namespace hearth::model {

namespace {

// torch's protection against division by zero.
constexpr double kEpsilon = 1e-6;

// Adds up a fixed number of partial sums, so that the compiler can use vectors
// and the order of additions depends only on the size.
double SumOfSquares(const float* values, int64_t count) {
  constexpr int64_t kSums = 8;
  std::array<double, kSums> sums = {};
  int64_t i = 0;
  for (; i + kSums <= count; i += kSums) {
    for (int64_t lane = 0; lane < kSums; ++lane) {
      const double value = values[i + lane];
      sums[lane] += value * value;
    }
  }
  for (; i < count; ++i) sums[0] += double{values[i]} * double{values[i]};
  double sum = 0;
  for (const double part : sums) sum += part;
  return sum;
}

}  // namespace

double GlobalNorm(const std::vector<at::Tensor>& tensors) {
  double sum = 0;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor values = tensor.contiguous().cpu();
    sum += SumOfSquares(values.const_data_ptr<float>(), values.numel());
  }
  return std::sqrt(sum);
}

std::vector<at::Tensor> ClipNorm(const std::vector<at::Tensor>& gradients,
                                 double max_norm) {
  const at::NoGradGuard no_gradients;
  const double scale = max_norm / (GlobalNorm(gradients) + kEpsilon);
  if (scale >= 1) return gradients;
  // Not in place, because two gradients may be one tensor.
  std::vector<at::Tensor> clipped;
  clipped.reserve(gradients.size());
  for (const at::Tensor& gradient : gradients) {
    clipped.push_back(at::mul(gradient, scale));
  }
  return clipped;
}

namespace {

// Defaults of torch.optim and of the papers.
constexpr double kBeta1 = 0.9;
constexpr double kBeta2 = 0.999;
constexpr double kAdamEpsilon = 1e-8;

// Common part of all methods: parameters, a count of steps, named state.
class StatefulOptimizer : public Optimizer {
 public:
  StatefulOptimizer(const train::LearningRate& rate,
                    const std::vector<NamedTensor>& parameters)
      : rate_(rate) {
    for (const NamedTensor& parameter : parameters) {
      names_.push_back(parameter.name);
      parameters_.push_back(parameter.tensor);
    }
    step_ = at::zeros({}, at::kLong);
    state_.push_back({"step", step_});
  }

  const std::vector<NamedTensor>& state() const override { return state_; }

 protected:
  // Makes a tensor of zeros for each parameter, as part of the state.
  std::vector<at::Tensor> NewMoments(const std::string& name) {
    std::vector<at::Tensor> moments;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      moments.push_back(at::zeros_like(parameters_[i].detach()));
      state_.push_back({names_[i] + "." + name, moments.back()});
    }
    return moments;
  }

  // Counts a step and returns its number, from 1.
  int64_t NextStep() { return ++*step_.mutable_data_ptr<int64_t>(); }

  // Learning rate of step number `step`, from 1.
  double RateOf(int64_t step) const { return rate_.At(step - 1); }

  const std::vector<at::Tensor>& parameters() const { return parameters_; }

 private:
  const train::LearningRate rate_;
  std::vector<std::string> names_;
  std::vector<at::Tensor> parameters_;
  at::Tensor step_;
  std::vector<NamedTensor> state_;
};

// Adam (Kingma and Ba, 2015) or, if `decoupled`, AdamW (Loshchilov and Hutter,
// 2019), which differ in where weight decay enters.
class Adam final : public StatefulOptimizer {
 public:
  Adam(const train::LearningRate& rate, double weight_decay, bool decoupled,
       const std::vector<NamedTensor>& parameters)
      : StatefulOptimizer(rate, parameters),
        weight_decay_(weight_decay),
        decoupled_(decoupled),
        exp_avg_(NewMoments("exp_avg")),
        exp_avg_sq_(NewMoments("exp_avg_sq")) {}

  void Step(const std::vector<at::Tensor>& gradients) override {
    const at::NoGradGuard no_gradients;
    const int64_t step = NextStep();
    const std::vector<at::Tensor> steps(
        parameters().size(),
        at::full({}, static_cast<float>(step), exp_avg_.front().options()));
    const auto update = decoupled_ ? FusedAdamW : FusedAdam;
    update(parameters(), gradients, exp_avg_, exp_avg_sq_, {}, steps,
           RateOf(step), kBeta1, kBeta2, weight_decay_, kAdamEpsilon,
           /*amsgrad=*/false, /*maximize=*/false, {}, {});
  }

 private:
  // LibTorch's overloads that take a plain number as learning rate.
  static constexpr auto FusedAdam = at::_ops::_fused_adam_::call;
  static constexpr auto FusedAdamW = at::_ops::_fused_adamw_::call;

  double weight_decay_;
  bool decoupled_;
  std::vector<at::Tensor> exp_avg_;
  std::vector<at::Tensor> exp_avg_sq_;
};

class Sgd final : public StatefulOptimizer {
 public:
  Sgd(const train::SgdOptions& options, const train::LearningRate& rate,
      const std::vector<NamedTensor>& parameters)
      : StatefulOptimizer(rate, parameters), options_(options) {
    if (options.momentum != 0) momentum_ = NewMoments("momentum_buffer");
  }

  void Step(const std::vector<at::Tensor>& gradients) override {
    const at::NoGradGuard no_gradients;
    const int64_t step = NextStep();
    at::_fused_sgd_(parameters(), gradients, momentum_, options_.weight_decay,
                    options_.momentum, RateOf(step),
                    /*dampening=*/0, /*nesterov=*/false, /*maximize=*/false,
                    /*is_first_step=*/step == 1);
  }

 private:
  train::SgdOptions options_;
  std::vector<at::Tensor> momentum_;
};

struct MakeOptimizer {
  std::unique_ptr<Optimizer> operator()(const train::AdamOptions& adam) const {
    return std::make_unique<Adam>(rate, adam.weight_decay,
                                  /*decoupled=*/false, parameters);
  }
  std::unique_ptr<Optimizer> operator()(
      const train::AdamWOptions& adamw) const {
    return std::make_unique<Adam>(rate, adamw.weight_decay,
                                  /*decoupled=*/true, parameters);
  }
  std::unique_ptr<Optimizer> operator()(const train::SgdOptions& sgd) const {
    return std::make_unique<Sgd>(sgd, rate, parameters);
  }

  const train::LearningRate& rate;
  const std::vector<NamedTensor>& parameters;
};

}  // namespace

std::unique_ptr<Optimizer> NewOptimizer(
    const train::OptimizerOptions& options, const train::LearningRate& rate,
    const std::vector<NamedTensor>& parameters) {
  return std::visit(MakeOptimizer{rate, parameters}, options);
}

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
                                         .weight = LossWeight(batch.labels)},
      .loss = loss.detach(),
      .gradients = torch::autograd::grad(
          {loss}, parameters_, {at::full({}, weight, loss.options())})};
  // Fused optimizers walk a gradient with its parameter's strides; the gradient
  // of a parameter that was used transposed may have others.
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

double Replica::LossWeight(const store::LabelsView& labels) const {
  return model::LossWeight(labels, weights_);
}

train::BatchResult Replica::Result(const train::BatchView& batch,
                                   const at::Tensor& scores,
                                   const at::Tensor& loss) const {
  return {.loss = loss.item<float>(),
          .num_seeds = batch.sample.num_seeds,
          .weight = LossWeight(batch.labels),
          .tally = TallyOf(scores, batch.labels)};
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
  std::set<std::string> known;
  for (const NamedTensor& named : network_.parameters()) {
    known.insert(kModelPrefix + named.name);
  }
  for (const NamedTensor& named : optimizer_->state()) {
    known.insert(kOptimizerPrefix + named.name);
  }
  for (const auto& [name, tensor] : state) {
    if (known.count(name) == 0) {
      return absl::DataLossError(absl::StrCat("unexpected tensor ", name));
    }
  }
  return absl::OkStatus();
}

}  // namespace hearth::model
