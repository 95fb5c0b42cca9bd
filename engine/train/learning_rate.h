#ifndef HEARTH_ENGINE_TRAIN_LEARNING_RATE_H_
#define HEARTH_ENGINE_TRAIN_LEARNING_RATE_H_

#include <cstdint>

#include "engine/train/model_options.h"

namespace hearth::train {

/// The learning rate of each step of a training, a function of the step's
/// number alone: a training that was resumed goes on with the rates that it
/// would have had. With W steps of warm-up, base rate r and n = step - W:
///
///   warm-up    r * (step + 1) / W                           for step < W
///   constant   r
///   cosine     m + (r - m) * (1 + cos(pi * n / (all - W))) / 2
///   step       r * gamma ^ floor(n / (steps of `epochs` epochs))
///
/// The latter two are those of torch's CosineAnnealingLR and StepLR.
/// Thread-safe.
class LearningRate {
 public:
  /// REQUIRES: both are valid.
  LearningRate(const TrainOptions& options, const ModelShape& shape);

  /// Takes the number of the step, from 0.
  double At(int64_t step) const;

 private:
  const double base_;
  const Schedule schedule_;
  const int64_t epoch_steps_;
  const int64_t warmup_steps_;
  const int64_t all_steps_;
};

}  // namespace hearth::train

#endif  // HEARTH_ENGINE_TRAIN_LEARNING_RATE_H_
