#ifndef HEARTH_ENGINE_MODEL_STEP_MEMORY_H_
#define HEARTH_ENGINE_MODEL_STEP_MEMORY_H_

#include <cstdint>

#include "engine/sample/batch_shape.h"
#include "engine/train/model_options.h"

namespace hearth::model {

/// The most that a function here returns: more than any machine has, and far
/// from an overflow of sums and products of such numbers.
inline constexpr uint64_t kMostMemoryBytes = uint64_t{1} << 56;

/// The bytes that a model, its optimizer and a step on a batch of `batch` hold
/// at most: an upper bound by counting the tensors of forward and backward, for
/// admission. Makes no model. REQUIRES: valid options of a model, as many
/// layers in all.
uint64_t StepMemoryBytes(const train::TrainOptions& options,
                         const train::ModelShape& shape,
                         const sample::BatchShape& batch);

/// Steps that may have begun on a device before the result of the first of them
/// is awaited: enough for it not to wait for the host.
inline constexpr int kMostPendingSteps = 2;

/// The same for a step on a GPU: what it holds there, the batch's copy with it,
/// and what it holds in the host's memory.
struct DeviceStepMemory {
  uint64_t device_bytes = 0;
  uint64_t host_bytes = 0;
};
DeviceStepMemory DeviceStepBytes(const train::TrainOptions& options,
                                 const train::ModelShape& shape,
                                 const sample::BatchShape& batch);

/// The part of StepMemoryBytes that stays between two steps: parameters, the
/// optimizer's state and copies of both.
uint64_t KeptMemoryBytes(const train::TrainOptions& options,
                         const train::ModelShape& shape);

/// Bytes of one copy of the parameters, exactly as many as a Network has.
uint64_t ParameterBytes(const train::TrainOptions& options,
                        const train::ModelShape& shape);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_STEP_MEMORY_H_
