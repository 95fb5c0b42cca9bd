#include "engine/model/device_product.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sum.h>

#include "engine/model/device_activation.h"

namespace hearth::model {

at::Tensor SumOfProductsOnDevice(
    absl::Span<const Factors> terms, const std::optional<at::Tensor>& bias,
    const std::optional<ReluActivation>& activation) {
  const at::NoGradGuard no_gradients;
  const Factors& first = terms.front();
  at::Tensor sum = bias ? at::addmm(*bias, first.x, first.w.t())
                        : at::mm(first.x, first.w.t());
  for (const Factors& term : terms.subspan(1)) {
    AddProductOnDevice(term.x, term.w, sum);
  }
  if (activation) ActivateOnDevice(sum, /*slope=*/0, activation->dropout);
  return sum;
}

void AddProductOnDevice(const at::Tensor& x, const at::Tensor& w,
                        const at::Tensor& sum) {
  const at::NoGradGuard no_gradients;
  sum.addmm_(x, w.t());
}

at::Tensor ThroughActivationOnDevice(const RowGradient& rows) {
  if (!rows.activated.defined()) return rows.gradient;
  return ReluGradientOnDevice(rows.activated, rows.gradient, rows.scale);
}

ParameterGradients TransposedProductsOnDevice(const RowGradient& g,
                                              absl::Span<const at::Tensor> xs,
                                              bool bias) {
  const at::NoGradGuard no_gradients;
  const at::Tensor gradient = ThroughActivationOnDevice(g);
  ParameterGradients result;
  for (const at::Tensor& x : xs) {
    result.weights.push_back(at::mm(gradient.t(), x));
  }
  if (bias) result.bias = gradient.sum(0);
  return result;
}

}  // namespace hearth::model
