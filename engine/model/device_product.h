#ifndef HEARTH_ENGINE_MODEL_DEVICE_PRODUCT_H_
#define HEARTH_ENGINE_MODEL_DEVICE_PRODUCT_H_

#include <optional>

#include "engine/model/matrix_product.h"

/// The functions of matrix_product.h for tensors that are not the processor's,
/// by LibTorch's operators, in float32.

namespace hearth::model {

at::Tensor SumOfProductsOnDevice(
    absl::Span<const Factors> terms, const std::optional<at::Tensor>& bias,
    const std::optional<ReluActivation>& activation);

void AddProductOnDevice(const at::Tensor& x, const at::Tensor& w,
                        const at::Tensor& sum);

at::Tensor ThroughActivationOnDevice(const RowGradient& rows);

ParameterGradients TransposedProductsOnDevice(const RowGradient& g,
                                              absl::Span<const at::Tensor> xs,
                                              bool bias);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_DEVICE_PRODUCT_H_
