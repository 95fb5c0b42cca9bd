#include "engine/model/new_train_step.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/version.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/model/network.h"
#include "engine/model/objective.h"
#include "engine/model/optimizer.h"
#include "engine/model/torch_boundary.h"
#include "engine/model/torch_environment.h"
#include "engine/train/null_step.h"

namespace hearth::model {
namespace {

constexpr char kModelPrefix[] = "model.";
constexpr char kOptimizerPrefix[] = "optimizer.";

// Being a step's first member, runs when all its tensors are freed.
struct MemoryRelease {
  ~MemoryRelease() { ReleaseTorchMemory(); }
};

class TorchStep final : public train::TrainStep {
 public:
  // Allocates: to be called within RunTorch.
  TorchStep(const train::TrainOptions& options, const train::ModelShape& shape)
      : options_(options),
        shape_(shape),
        network_(options, shape),
        optimizer_(NewOptimizer(options.optimizer, network_.parameters())) {
    for (const NamedTensor& parameter : network_.parameters()) {
      parameters_.push_back(parameter.tensor);
    }
  }

  absl::StatusOr<train::BatchResult> Train(
      absl::Span<const train::BatchView> shards,
      const train::StepPosition& position) override {
    HEARTH_RETURN_IF_ERROR(train::ValidateBatch(shards, shape_));
    const train::BatchView& batch = shards.front();
    train::BatchResult result;
    HEARTH_RETURN_IF_ERROR(RunTorch(options_.train_threads, [&] {
      const at::Tensor scores = network_.Forward(batch, position);
      const at::Tensor loss = Loss(scores, batch.labels);
      result = Result(batch, scores, loss);
      optimizer_->Step(torch::autograd::grad({loss}, parameters_));
      return absl::OkStatus();
    }));
    return result;
  }

  absl::StatusOr<train::BatchResult> Evaluate(
      absl::Span<const train::BatchView> shards) override {
    HEARTH_RETURN_IF_ERROR(train::ValidateBatch(shards, shape_));
    const train::BatchView& batch = shards.front();
    train::BatchResult result;
    HEARTH_RETURN_IF_ERROR(RunTorch(options_.train_threads, [&] {
      const at::NoGradGuard no_gradients;
      const at::Tensor scores = network_.Forward(batch, std::nullopt);
      result = Result(batch, scores, Loss(scores, batch.labels));
      return absl::OkStatus();
    }));
    return result;
  }

  absl::StatusOr<store::TensorMap> Save() override {
    store::TensorMap state;
    HEARTH_RETURN_IF_ERROR(RunTorch(options_.train_threads, [&] {
      CopyOut(kModelPrefix, network_.parameters(), state);
      CopyOut(kOptimizerPrefix, optimizer_->state(), state);
      return absl::OkStatus();
    }));
    return state;
  }

  absl::Status Load(const store::TensorMap& state) override {
    return RunTorch(options_.train_threads, [&] {
      HEARTH_RETURN_IF_ERROR(
          CheckFits(kModelPrefix, network_.parameters(), state));
      HEARTH_RETURN_IF_ERROR(
          CheckFits(kOptimizerPrefix, optimizer_->state(), state));
      HEARTH_RETURN_IF_ERROR(CheckNothingElse(state));
      CopyIn(kModelPrefix, state, network_.parameters());
      CopyIn(kOptimizerPrefix, state, optimizer_->state());
      return absl::OkStatus();
    });
  }

  absl::StatusOr<store::SafeTensors> Export() override {
    store::SafeTensors exported;
    HEARTH_RETURN_IF_ERROR(RunTorch(options_.train_threads, [&] {
      CopyOut("", network_.parameters(), exported.tensors);
      exported.metadata["config"] = ModelConfig(options_, shape_);
      return absl::OkStatus();
    }));
    return exported;
  }

 private:
  static train::BatchResult Result(const train::BatchView& batch,
                                   const at::Tensor& scores,
                                   const at::Tensor& loss) {
    return {.loss = loss.item<float>(),
            .num_seeds = batch.sample.num_seeds,
            .tally = Judge(scores, batch.labels)};
  }

  // DATA_LOSS naming a tensor that this model does not have. REQUIRES: those
  // that it has are there.
  absl::Status CheckNothingElse(const store::TensorMap& state) const {
    store::TensorMap known;
    CopyOut(kModelPrefix, network_.parameters(), known);
    CopyOut(kOptimizerPrefix, optimizer_->state(), known);
    for (const auto& [name, tensor] : state) {
      if (known.count(name) == 0) {
        return absl::DataLossError(absl::StrCat("unexpected tensor ", name));
      }
    }
    return absl::OkStatus();
  }

  MemoryRelease memory_release_;
  train::TrainOptions options_;
  train::ModelShape shape_;
  Network network_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<at::Tensor> parameters_;
};

}  // namespace

void InitializeTorch(char** argv) {
  EnsureTorchEnvironment(argv);
  SetUpTorch();
}

const char* TorchVersion() { return TORCH_VERSION; }

absl::StatusOr<std::unique_ptr<train::TrainStep>> NewTrainStep(
    const train::TrainOptions& options, const train::ModelShape& shape) {
  HEARTH_RETURN_IF_ERROR(options.Validate());
  if (std::holds_alternative<train::NoModelOptions>(options.model)) {
    return train::NewNullStep();
  }
  HEARTH_RETURN_IF_ERROR(shape.Validate());
  std::unique_ptr<train::TrainStep> step;
  HEARTH_RETURN_IF_ERROR(RunTorch(options.train_threads, [&] {
    step = std::make_unique<TorchStep>(options, shape);
    return absl::OkStatus();
  }));
  return step;
}

}  // namespace hearth::model
