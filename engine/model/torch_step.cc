#include "engine/model/torch_step.h"

#include <c10/core/CachingDeviceAllocator.h>

#include <memory>

#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/model/device_kernels.h"
#include "engine/model/device_transfer.h"
#include "engine/model/matrix_product.h"
#include "engine/model/model_kinds.h"
#include "engine/model/replica.h"
#include "engine/model/step_memory.h"
#include "engine/model/torch_boundary.h"

namespace hearth::model {
namespace {

// Where a model is; `kernels` null: on the processor.
struct ModelDevice {
  at::Device device = at::kCPU;
  std::shared_ptr<DeviceKernels> kernels = nullptr;
};

// A member of a model: once all the model's tensors are freed, gives what
// LibTorch keeps of a device's memory for the next ones back to the device.
struct DeviceMemory {
  at::Device device = at::kCPU;

  ~DeviceMemory() {
    if (device.is_cpu()) return;
    auto* const kept =
        dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
    if (kept == nullptr) return;
    // There is nobody to tell, and a device that fails says so elsewhere.
    (void)RunTorch(1, [&] {
      kept->emptyCache();
      return absl::OkStatus();
    });
  }
};

absl::Status CheckDeviceModel(const train::TrainOptions& options,
                              const train::ModelShape& shape) {
  if (shape.trainers > 1) {
    return absl::UnimplementedError("trainers: must be 1 on a GPU");
  }
  if (options.precision == train::Precision::kBfloat16) {
    return absl::UnimplementedError("precision: must not be bf16 on a GPU");
  }
  return absl::OkStatus();
}

class TorchStep final : public train::TrainStep {
 public:
  TorchStep(const train::TrainOptions& options, const train::ModelShape& shape,
            const ModelDevice& device)
      : device_memory_{device.device},
        kernels_(device.kernels),
        options_(options),
        threads_(options.train_threads),
        shape_(shape) {}

  absl::StatusOr<train::BatchResult> Train(
      absl::Span<const train::BatchView> shards,
      const train::StepPosition& position) override {
    HEARTH_ASSIGN_OR_RETURN(const train::AwaitResult result,
                            BeginTrain(shards, position));
    return result();
  }

  absl::StatusOr<train::AwaitResult> BeginTrain(
      absl::Span<const train::BatchView> shards,
      const train::StepPosition& position) override {
    HEARTH_RETURN_IF_ERROR(CheckBatch(shards));
    train::BatchResult result;
    std::shared_ptr<const PendingScalar> loss;
    HEARTH_RETURN_IF_ERROR(RunTorch(threads_, [&] {
      const Replica::Derivative derivative =
          replica().Differentiate(shards.front(), position, /*weight=*/1);
      replica().Step(derivative.gradients);
      result = derivative.result;
      loss = std::make_shared<PendingScalar>(derivative.loss);
      return absl::OkStatus();
    }));
    EndTorchStep();
    return
        [this, result, loss]() mutable -> absl::StatusOr<train::BatchResult> {
          HEARTH_RETURN_IF_ERROR(RunTorch(threads_, [&] {
            result.loss = loss->Get();
            return absl::OkStatus();
          }));
          return result;
        };
  }

  int MostPending() const override {
    return on_device() ? kMostPendingSteps : 0;
  }

  absl::StatusOr<train::BatchResult> Evaluate(
      absl::Span<const train::BatchView> shards) override {
    HEARTH_RETURN_IF_ERROR(CheckBatch(shards));
    train::BatchResult result;
    HEARTH_RETURN_IF_ERROR(RunTorch(threads_, [&] {
      result = replica().Evaluate(shards.front());
      return absl::OkStatus();
    }));
    EndTorchStep();
    return result;
  }

  absl::StatusOr<store::TensorMap> Save() override {
    store::TensorMap state;
    HEARTH_RETURN_IF_ERROR(RunTorch(threads_, [&] {
      state = replica().Save();
      return absl::OkStatus();
    }));
    return state;
  }

  absl::Status Load(const store::TensorMap& state) override {
    return RunTorch(threads_, [&] { return replica().Load(state); });
  }

  uint64_t MemoryBytes(const sample::BatchShape& shape) const override {
    return on_device() ? DeviceStepBytes(options_, shape_, shape).host_bytes
                       : StepMemoryBytes(options_, shape_, shape);
  }

  uint64_t GpuBytes(const sample::BatchShape& shape) const override {
    return on_device() ? DeviceStepBytes(options_, shape_, shape).device_bytes
                       : 0;
  }

  uint64_t KeptBytes() const override {
    return KeptMemoryBytes(options_, shape_);
  }

  uint64_t ParameterBytes() const override {
    return model::ParameterBytes(options_, shape_);
  }

  int64_t TopWidth() const override {
    return on_device() ? 0 : train::TopWidth(options_.model, shape_);
  }

  train::Precision precision() const override {
    return ResolvedPrecision(options_.precision);
  }

  absl::StatusOr<store::SafeTensors> Export() override {
    store::SafeTensors exported;
    HEARTH_RETURN_IF_ERROR(RunTorch(threads_, [&] {
      exported = replica().Export();
      return absl::OkStatus();
    }));
    return exported;
  }

 private:
  bool on_device() const { return kernels_ != nullptr; }

  // Made by the first call, which is within RunTorch, as all are.
  Replica& replica() {
    if (replica_ == nullptr) {
      replica_ =
          std::make_unique<Replica>(options_, shape_, device_memory_.device);
    }
    return *replica_;
  }

  absl::Status CheckBatch(absl::Span<const train::BatchView> shards) const {
    HEARTH_RETURN_IF_ERROR(train::ValidateBatch(shards, shape_));
    if (on_device() && shards.front().sample.top.has_value()) {
      return absl::UnimplementedError(
          "history: there are no embeddings of earlier batches on a GPU");
    }
    return absl::OkStatus();
  }

  const TorchMemory memory_;
  const DeviceMemory device_memory_;
  // Null for a model on the processor.
  const std::shared_ptr<DeviceKernels> kernels_;
  const train::TrainOptions options_;
  const int threads_;
  const train::ModelShape shape_;
  std::unique_ptr<Replica> replica_;
};

}  // namespace

absl::Status CheckModel(const train::TrainOptions& options,
                        const train::ModelShape& shape) {
  HEARTH_RETURN_IF_ERROR(shape.Validate());
  HEARTH_RETURN_IF_ERROR(CheckTypes(options.model, shape));
  HEARTH_RETURN_IF_ERROR(
      options.ValidateForLabels(shape.label_kind, shape.label_width));
  if (!HasProducts(options.precision)) {
    return absl::FailedPreconditionError(
        "precision: this processor has no products of bfloat16 (AVX-512)");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<train::TrainStep>> NewTorchStep(
    const train::TrainOptions& options, const train::ModelShape& shape) {
  return std::make_unique<TorchStep>(options, shape, ModelDevice());
}

absl::StatusOr<std::unique_ptr<train::TrainStep>> NewDeviceStep(
    const train::TrainOptions& options, const train::ModelShape& shape,
    const at::Device& device, const cuda::Device& plugin) {
  HEARTH_RETURN_IF_ERROR(options.Validate());
  HEARTH_RETURN_IF_ERROR(CheckDeviceModel(options, shape));
  HEARTH_RETURN_IF_ERROR(CheckModel(options, shape));
  train::TrainOptions on_device = options;
  on_device.precision = train::Precision::kFloat32;
  return std::make_unique<TorchStep>(
      on_device, shape,
      ModelDevice{.device = device,
                  .kernels = DeviceKernels::Open(device, plugin)});
}

}  // namespace hearth::model
