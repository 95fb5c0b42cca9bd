#ifndef HEARTH_ENGINE_MODEL_OPTIMIZER_H_
#define HEARTH_ENGINE_MODEL_OPTIMIZER_H_

#include <memory>
#include <vector>

#include "engine/model/named_tensor.h"
#include "engine/train/learning_rate.h"
#include "engine/train/model_options.h"

namespace hearth::model {

/// Moves parameters along their gradients, with torch.optim's semantics.
/// Single-owner. Throws what LibTorch throws.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// One step; gradients are in the order of the parameters.
  virtual void Step(const std::vector<at::Tensor>& gradients) = 0;

  /// The state by name: "step" (int64) and, per parameter, what the method
  /// remembers ("convs.0.bias.exp_avg"). Tensors are the live ones: copying
  /// into them restores a state.
  virtual const std::vector<NamedTensor>& state() const = 0;
};

/// An optimizer of `parameters`, whose tensors it keeps and changes in place.
/// `rate` gives the learning rate of each step by the number of steps taken,
/// which is part of the state.
std::unique_ptr<Optimizer> NewOptimizer(
    const train::OptimizerOptions& options, const train::LearningRate& rate,
    const std::vector<NamedTensor>& parameters);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_OPTIMIZER_H_
