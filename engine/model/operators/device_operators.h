#ifndef HEARTH_ENGINE_MODEL_OPERATORS_DEVICE_OPERATORS_H_
#define HEARTH_ENGINE_MODEL_OPERATORS_DEVICE_OPERATORS_H_

#include <ATen/core/Tensor.h>

#include <optional>

#include "engine/model/cpu/adjacency.h"
#include "engine/model/cpu/relu_dropout.h"
#include "engine/model/operators/edges.h"
#include "engine/model/operators/matrix_product.h"

/// Operations of relu_dropout.h, matrix_product.h and edges.h on contiguous
/// tensors of a device whose DeviceKernels are open. The dropped elements are
/// the same as on the processor. A slope of 0 means ReLU.

namespace hearth::model {

/// Applies LeakyReLU, then `dropout` if there is one, in place.
void ActivateOnDevice(const at::Tensor& x, float slope,
                      const std::optional<DropoutPattern>& dropout);

/// Gradient through LeakyReLU and dropout, where ActivateOnDevice gave
/// `output`.
at::Tensor GradientOnDevice(const at::Tensor& output,
                            const at::Tensor& gradient, float slope,
                            const std::optional<DropoutPattern>& dropout);

/// Gradient through ReLU and dropout of factor `scale`, where `output` tells
/// which elements were kept (ReluDropoutGradient).
at::Tensor ReluGradientOnDevice(const at::Tensor& output,
                                const at::Tensor& gradient, float scale);

// The functions of matrix_product.h, by LibTorch's operators, in float32.

at::Tensor SumOfProductsOnDevice(
    absl::Span<const Factors> terms, const std::optional<at::Tensor>& bias,
    const std::optional<ReluActivation>& activation);

void AddProductOnDevice(const at::Tensor& x, const at::Tensor& w,
                        const at::Tensor& sum);

at::Tensor ThroughActivationOnDevice(const RowGradient& rows);

ParameterGradients TransposedProductsOnDevice(const RowGradient& g,
                                              absl::Span<const at::Tensor> xs,
                                              bool bias);

/// Edges whose lists are copied to `device`, with DeviceKernels' operations.
/// The processor makes the lists by source when a backward pass first needs
/// them.
EdgesPtr NewDeviceEdges(Adjacency adjacency, const at::Device& device);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_OPERATORS_DEVICE_OPERATORS_H_
