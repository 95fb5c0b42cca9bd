#include "engine/train/learning_rate.h"

#include <cmath>
#include <numbers>
#include <variant>

namespace hearth::train {
namespace {

double BaseRate(const OptimizerOptions& optimizer) {
  return std::visit([](const auto& options) { return options.learning_rate; },
                    optimizer);
}

struct RateAfterWarmup {
  double operator()(const ConstantSchedule&) const { return base; }
  double operator()(const CosineSchedule& cosine) const {
    const double angle = std::numbers::pi * static_cast<double>(step) /
                         static_cast<double>(num_steps);
    return cosine.min_learning_rate +
           (base - cosine.min_learning_rate) * (1 + std::cos(angle)) / 2;
  }
  double operator()(const StepSchedule& decay) const {
    const int64_t falls = step / epoch_steps / decay.epochs;
    return base * std::pow(decay.gamma, static_cast<double>(falls));
  }

  double base;
  // Steps since the warm-up, and in all after it.
  int64_t step;
  int64_t num_steps;
  int64_t epoch_steps;
};

}  // namespace

LearningRate::LearningRate(const TrainOptions& options, const ModelShape& shape)
    : base_(BaseRate(options.optimizer)),
      schedule_(options.schedule),
      epoch_steps_(shape.epoch_steps),
      warmup_steps_(options.warmup_epochs * shape.epoch_steps),
      all_steps_(shape.epochs * shape.epoch_steps) {}

double LearningRate::At(int64_t step) const {
  if (step < warmup_steps_) {
    return base_ * static_cast<double>(step + 1) /
           static_cast<double>(warmup_steps_);
  }
  return std::visit(RateAfterWarmup{.base = base_,
                                    .step = step - warmup_steps_,
                                    .num_steps = all_steps_ - warmup_steps_,
                                    .epoch_steps = epoch_steps_},
                    schedule_);
}

}  // namespace hearth::train
