#include "engine/model/new_train_step.h"

#include <torch/version.h>

#include <variant>

#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/model/matrix_product.h"
#include "engine/model/model_kinds.h"
#include "engine/model/parallel_step.h"
#include "engine/model/replica.h"
#include "engine/model/step_memory.h"
#include "engine/model/torch_boundary.h"
#include "engine/model/torch_environment.h"
#include "engine/train/null_step.h"

namespace hearth::model {
namespace {

class TorchStep final : public train::TrainStep {
 public:
  // Allocates: to be called within RunTorch.
  TorchStep(const train::TrainOptions& options, const train::ModelShape& shape)
      : options_(options),
        threads_(options.train_threads),
        shape_(shape),
        replica_(options, shape) {}

  absl::StatusOr<train::BatchResult> Train(
      absl::Span<const train::BatchView> shards,
      const train::StepPosition& position) override {
    HEARTH_RETURN_IF_ERROR(train::ValidateBatch(shards, shape_));
    train::BatchResult result;
    HEARTH_RETURN_IF_ERROR(RunTorch(threads_, [&] {
      const Replica::Derivative derivative =
          replica_.Differentiate(shards.front(), position, /*weight=*/1);
      replica_.Step(derivative.gradients);
      result = derivative.result;
      return absl::OkStatus();
    }));
    EndTorchStep();
    return result;
  }

  absl::StatusOr<train::BatchResult> Evaluate(
      absl::Span<const train::BatchView> shards) override {
    HEARTH_RETURN_IF_ERROR(train::ValidateBatch(shards, shape_));
    train::BatchResult result;
    HEARTH_RETURN_IF_ERROR(RunTorch(threads_, [&] {
      result = replica_.Evaluate(shards.front());
      return absl::OkStatus();
    }));
    EndTorchStep();
    return result;
  }

  absl::StatusOr<store::TensorMap> Save() override {
    store::TensorMap state;
    HEARTH_RETURN_IF_ERROR(RunTorch(threads_, [&] {
      state = replica_.Save();
      return absl::OkStatus();
    }));
    return state;
  }

  absl::Status Load(const store::TensorMap& state) override {
    return RunTorch(threads_, [&] { return replica_.Load(state); });
  }

  uint64_t MemoryBytes(const sample::BatchShape& shape) const override {
    return StepMemoryBytes(options_, shape_, shape);
  }

  uint64_t KeptBytes() const override {
    return KeptMemoryBytes(options_, shape_);
  }

  int64_t TopWidth() const override { return replica_.top_width(); }

  train::Precision precision() const override { return replica_.precision(); }

  absl::StatusOr<store::SafeTensors> Export() override {
    store::SafeTensors exported;
    HEARTH_RETURN_IF_ERROR(RunTorch(threads_, [&] {
      exported = replica_.Export();
      return absl::OkStatus();
    }));
    return exported;
  }

 private:
  const TorchMemory memory_;
  const train::TrainOptions options_;
  const int threads_;
  const train::ModelShape shape_;
  Replica replica_;
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
  HEARTH_RETURN_IF_ERROR(CheckTypes(options.model, shape));
  HEARTH_RETURN_IF_ERROR(
      options.ValidateForLabels(shape.label_kind, shape.label_width));
  if (!HasProducts(options.precision)) {
    return absl::FailedPreconditionError(
        "precision: this processor has no products of bfloat16 (AVX-512)");
  }
  if (shape.trainers > 1) return NewParallelStep(options, shape);
  std::unique_ptr<train::TrainStep> step;
  HEARTH_RETURN_IF_ERROR(RunTorch(options.train_threads, [&] {
    step = std::make_unique<TorchStep>(options, shape);
    return absl::OkStatus();
  }));
  return step;
}

}  // namespace hearth::model
