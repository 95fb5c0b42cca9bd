#ifndef HEARTH_ENGINE_MODEL_REPLICA_H_
#define HEARTH_ENGINE_MODEL_REPLICA_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/model/named_tensor.h"
#include "engine/model/network.h"
#include "engine/model/optimizer.h"
#include "engine/store/safetensors.h"
#include "engine/train/model_options.h"
#include "engine/train/train_step.h"

namespace hearth::model {

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

#endif  // HEARTH_ENGINE_MODEL_REPLICA_H_
