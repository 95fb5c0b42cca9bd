#include "engine/model/new_train_step.h"

#include <torch/version.h>

#include <variant>

#include "engine/base/status_macros.h"
#include "engine/model/parallel_step.h"
#include "engine/model/torch_boundary.h"
#include "engine/model/torch_environment.h"
#include "engine/model/torch_step.h"
#include "engine/train/null_step.h"

namespace hearth::model {

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
  HEARTH_RETURN_IF_ERROR(CheckModel(options, shape));
  if (shape.trainers > 1) return NewParallelStep(options, shape);
  return NewTorchStep(options, shape);
}

}  // namespace hearth::model
