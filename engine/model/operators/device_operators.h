#ifndef HEARTH_ENGINE_MODEL_OPERATORS_DEVICE_OPERATORS_H_
#define HEARTH_ENGINE_MODEL_OPERATORS_DEVICE_OPERATORS_H_

#include <ATen/core/Tensor.h>

#include <optional>

#include "engine/model/cpu/adjacency.h"
#include "engine/model/cpu/relu_dropout.h"
#include "engine/model/operators/edges.h"
#include "engine/model/operators/matrix_product.h"

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

/// The functions of matrix_product.h for tensors that are not the processor's,
/// by LibTorch's operators, in float32.

at::Tensor SumOfProductsOnDevice(
    absl::Span<const Factors> terms, const std::optional<at::Tensor>& bias,
    const std::optional<ReluActivation>& activation);

void AddProductOnDevice(const at::Tensor& x, const at::Tensor& w,
                        const at::Tensor& sum);

at::Tensor ThroughActivationOnDevice(const RowGradient& rows);

ParameterGradients TransposedProductsOnDevice(const RowGradient& g,
                                              absl::Span<const at::Tensor> xs,
                                              bool bias);

/// Edges whose lists are copied to `device` and whose operations are
/// DeviceKernels'. Lists by source are made by the processor, when backward
/// passes first need them.
EdgesPtr NewDeviceEdges(Adjacency adjacency, const at::Device& device);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_OPERATORS_DEVICE_OPERATORS_H_
