#include "engine/model/step/new_train_step.h"

#include <ATen/Version.h>
#include <c10/core/Device.h>
#include <torch/version.h>

#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "engine/model/operators/matrix_product.h"
#include "engine/model/runtime/torch_boundary.h"
#include "engine/model/runtime/torch_startup.h"
#include "engine/model/step/torch_step.h"
#include "engine/train/train_step.h"

namespace hearth::model {

namespace {

// Set once, before there are threads.
absl::Status& GpuTrainingStatus() {
  static auto* const status = new absl::Status(absl::FailedPreconditionError(
      "LibTorch was not asked for its part for GPUs"));
  return *status;
}

}  // namespace

void InitializeTorch(char** argv) {
  EnsureTorchEnvironment(argv);
  GpuTrainingStatus() = LoadGpuTorch(GpuTorchPath());
  SetUpTorch();
}

absl::Status GpuTraining() { return GpuTrainingStatus(); }

const char* TorchVersion() { return TORCH_VERSION; }

std::string ArithmeticName() {
  return absl::StrCat("numerics ", train::kNumericsVersion, ", torch ",
                      TorchVersion(), ", ", at::get_cpu_capability(),
                      ", precision ",
                      train::Name(ResolvedPrecision(train::Precision::kAuto)));
}

absl::StatusOr<std::unique_ptr<train::TrainStep>> NewTrainStep(
    const train::TrainOptions& options, const train::ModelShape& shape) {
  HEARTH_RETURN_IF_ERROR(options.Validate());
  if (std::holds_alternative<train::NoModelOptions>(options.model)) {
    return train::NewNullStep();
  }
  HEARTH_RETURN_IF_ERROR(CheckModel(options, shape));
  if (shape.trainers > 1) return NewParallelStep(options, shape);
  return NewTorchStep(options, shape);
}

absl::StatusOr<std::unique_ptr<train::TrainStep>> NewRankedStep(
    const train::TrainOptions& options, const train::ModelShape& shape,
    train::RankGroup& ranks) {
  HEARTH_RETURN_IF_ERROR(options.Validate());
  if (std::holds_alternative<train::NoModelOptions>(options.model)) {
    return absl::InvalidArgumentError(
        "model: must not be none on several machines");
  }
  if (options.gpu.has_value()) {
    return absl::InvalidArgumentError(
        "device: must be cpu on several machines");
  }
  HEARTH_RETURN_IF_ERROR(CheckModel(options, shape));
  return NewParallelStep(options, shape, &ranks);
}

absl::StatusOr<std::unique_ptr<train::TrainStep>> NewGpuStep(
    const train::TrainOptions& options, const train::ModelShape& shape,
    const cuda::Device& device) {
  HEARTH_RETURN_IF_ERROR(GpuTraining());
  return NewDeviceStep(
      options, shape,
      at::Device(at::kCUDA, static_cast<at::DeviceIndex>(device.number)),
      device);
}

}  // namespace hearth::model
