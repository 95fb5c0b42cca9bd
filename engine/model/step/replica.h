#ifndef HEARTH_ENGINE_MODEL_STEP_REPLICA_H_
#define HEARTH_ENGINE_MODEL_STEP_REPLICA_H_

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/model/layers/network.h"
#include "engine/model/layers/parameters.h"
#include "engine/store/safetensors.h"
#include "engine/train/model_options.h"
#include "engine/train/train_step.h"

namespace hearth::model {

/// The L2 norm of all elements of float32 tensors together. The same in every
/// bit for any number of threads.
double GlobalNorm(const std::vector<at::Tensor>& tensors);

/// `gradients` scaled to a GlobalNorm of at most `max_norm`, as torch's
/// clip_grad_norm_ does it: by max_norm / (norm + 1e-6) where that is below 1.
/// Those that are within it already are given back as they are.
std::vector<at::Tensor> ClipNorm(const std::vector<at::Tensor>& gradients,
                                 double max_norm);

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

/// One copy of a model and its optimizer. Single-owner. Is made and used within
/// RunTorch: throws what LibTorch throws.
class Replica {
 public:
  /// Equal options and shapes make equal replicas, on every device. REQUIRES:
  /// both are valid and there is a model.
  Replica(const train::TrainOptions& options, const train::ModelShape& shape,
          const at::Device& device = at::kCPU);

  /// Result and gradients of one batch or shard, whose loss counts as `weight`
  /// of it. The gradients are in the order of parameters().
  struct Derivative {
    /// On a device, all but the loss, which is yet to come, and the tally.
    train::BatchResult result;
    at::Tensor loss;
    std::vector<at::Tensor> gradients;
  };
  /// REQUIRES: batch.Validate; the batch has seeds.
  Derivative Differentiate(const train::BatchView& batch,
                           const train::StepPosition& position,
                           float weight) const;

  /// One step of the optimizer, along `gradients` as they are clipped.
  void Step(const std::vector<at::Tensor>& gradients);

  /// Without dropout. REQUIRES: as Differentiate.
  train::BatchResult Evaluate(const train::BatchView& batch) const;

  /// BatchResult::weight of a batch, before it is computed.
  double LossWeight(const train::BatchView& batch) const;

  const std::vector<at::Tensor>& parameters() const { return parameters_; }

  /// As train::TrainStep has them.
  store::TensorMap Save() const;
  absl::Status Load(const store::TensorMap& state);
  store::SafeTensors Export() const;

 private:
  absl::Status CheckNothingElse(const store::TensorMap& state) const;
  train::BatchResult Result(const train::BatchView& batch,
                            const at::Tensor& scores,
                            const at::Tensor& loss) const;

  const train::TrainOptions options_;
  const train::ModelShape shape_;
  // Weights of classes or labels in the loss.
  const std::vector<float> weights_;
  const train::Precision precision_;
  const Network network_;
  const std::unique_ptr<Optimizer> optimizer_;
  std::vector<at::Tensor> parameters_;
};

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_STEP_REPLICA_H_
