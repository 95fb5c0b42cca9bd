#include "engine/model/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <variant>

namespace hearth::model {
namespace {

// torch.optim's defaults, which are the papers' too.
constexpr double kBeta1 = 0.9;
constexpr double kBeta2 = 0.999;
constexpr double kEpsilon = 1e-8;

// The part that all methods share: parameters, a count of steps, named state.
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
  // Zeros beside each parameter, part of the state.
  std::vector<at::Tensor> NewMoments(const std::string& name) {
    std::vector<at::Tensor> moments;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      moments.push_back(at::zeros_like(parameters_[i].detach()));
      state_.push_back({names_[i] + "." + name, moments.back()});
    }
    return moments;
  }

  // Counts a step; its number, from 1.
  int64_t NextStep() { return ++*step_.mutable_data_ptr<int64_t>(); }

  // Takes the number of the step, from 1.
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
// 2019): they differ in where the weight decay enters.
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
           RateOf(step), kBeta1, kBeta2, weight_decay_, kEpsilon,
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

}  // namespace hearth::model
