#ifndef HEARTH_ENGINE_TRAIN_NULL_STEP_H_
#define HEARTH_ENGINE_TRAIN_NULL_STEP_H_

#include <memory>

#include "engine/train/train_step.h"

namespace hearth::train {

/// A step that consumes batches without training (`--model none`), so that a
/// slow trainer cannot hide a slow reader: losses are 0, nothing is predicted,
/// and there is no state.
std::unique_ptr<TrainStep> NewNullStep();

}  // namespace hearth::train

#endif  // HEARTH_ENGINE_TRAIN_NULL_STEP_H_
