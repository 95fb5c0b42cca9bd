#ifndef HEARTH_ENGINE_MODEL_DEVICE_ACTIVATION_H_
#define HEARTH_ENGINE_MODEL_DEVICE_ACTIVATION_H_

#include <ATen/core/Tensor.h>

#include <optional>

#include "engine/model/relu_dropout.h"

/// The operations of relu_dropout.h on tensors, contiguous, of a device whose
/// DeviceKernels are open; what is dropped is the same. A slope of 0 is ReLU's.

namespace hearth::model {

/// LeakyReLU, then `dropout` if there is one, in place.
void ActivateOnDevice(const at::Tensor& x, float slope,
                      const std::optional<DropoutPattern>& dropout);

/// The gradient through both, if that gave `output`.
at::Tensor GradientOnDevice(const at::Tensor& output,
                            const at::Tensor& gradient, float slope,
                            const std::optional<DropoutPattern>& dropout);

/// The gradient through ReLU and dropout of that scale, which `output` shows
/// (ReluDropoutGradient).
at::Tensor ReluGradientOnDevice(const at::Tensor& output,
                                const at::Tensor& gradient, float scale);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_DEVICE_ACTIVATION_H_
