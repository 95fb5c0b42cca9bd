#ifndef HEARTH_ENGINE_MODEL_STEP_REPLICA_H_
#define HEARTH_ENGINE_MODEL_STEP_REPLICA_H_

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/model/layers/network.h"
#include "engine/model/layers/parameters.h"
#include "engine/store/labels.h"
#include "engine/store/safetensors.h"
#include "engine/train/model_options.h"
#include "engine/train/train_step.h"

/// A model with its optimizer, and clipping of its gradients.

namespace hearth::model {

/// L2 norm of all elements of float32 tensors together. Equal in every bit for
/// any number of threads.
double GlobalNorm(const std::vector<at::Tensor>& tensors);

/// `gradients` scaled to a GlobalNorm of at most `max_norm`, as by torch's
/// clip_grad_norm_: multiplied by max_norm / (norm + 1e-6) where that is below
/// 1. Gradients whose norm is at most `max_norm` are returned unchanged.
std::vector<at::Tensor> ClipNorm(const std::vector<at::Tensor>& gradients,
                                 double max_norm);

/// Moves parameters along their gradients, with torch.optim's semantics.
/// Single-owner. Throws what LibTorch throws.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// Takes one step along `gradients`, in the order of the parameters.
  virtual void Step(const std::vector<at::Tensor>& gradients) = 0;

  /// State by name: "step" (int64) and, for each parameter, the tensors of the
  /// method ("convs.0.bias.exp_avg"). Tensors are the live ones: copying into
  /// them restores a state.
  virtual const std::vector<NamedTensor>& state() const = 0;
};

/// An optimizer of `parameters`, whose tensors it keeps and changes in place.
/// `rate` gives the learning rate of each step by the number of earlier steps,
/// which is part of the state.
std::unique_ptr<Optimizer> NewOptimizer(
    const train::OptimizerOptions& options, const train::LearningRate& rate,
    const std::vector<NamedTensor>& parameters);

/// One copy of a model and its optimizer. Single-owner. Must be created and
/// used within RunTorch: throws what LibTorch throws.
class Replica {
 public:
  /// Equal options and shapes make equal replicas, on every device. REQUIRES:
  /// valid `options` and `shape`; a model.
  Replica(const train::TrainOptions& options, const train::ModelShape& shape,
          const at::Device& device = at::kCPU);

  /// Result and gradients of one batch or shard, whose loss is weighted by
  /// `weight`. Gradients are in the order of parameters().
  struct Derivative {
    /// On a device without the loss, which is computed later, and without the
    /// tally.
    train::BatchResult result;
    at::Tensor loss;
    std::vector<at::Tensor> gradients;
  };
  /// REQUIRES: batch.Validate; the batch has seeds.
  Derivative Differentiate(const train::BatchView& batch,
                           const train::StepPosition& position,
                           float weight) const;

  /// Takes one step of the optimizer along the clipped `gradients`.
  void Step(const std::vector<at::Tensor>& gradients);

  /// Forward pass without dropout. REQUIRES: as Differentiate.
  train::BatchResult Evaluate(const train::BatchView& batch) const;

  /// BatchResult::weight of seeds with these labels, known before their batch
  /// is computed.
  double LossWeight(const store::LabelsView& labels) const;

  const std::vector<at::Tensor>& parameters() const { return parameters_; }

  /// As in train::TrainStep.
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
