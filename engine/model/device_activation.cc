#include "engine/model/device_activation.h"

#include <ATen/ops/empty_like.h>

#include "engine/model/device_kernels.h"
#include "kernels/cuda/hearth_cuda.h"

namespace hearth::model {
namespace {

// Without dropout.
HearthCudaActivation Plain(float slope, float scale) {
  return {
      .slope = slope, .scale = scale, .threshold = 0, .key = {}, .nonce = {}};
}

HearthCudaActivation ActivationOf(
    float slope, const std::optional<DropoutPattern>& dropout) {
  if (!dropout) return Plain(slope, /*scale=*/1);
  return {.slope = slope,
          .scale = dropout->scale(),
          .threshold = dropout->threshold(),
          .key = {dropout->key()[0], dropout->key()[1]},
          .nonce = {dropout->nonce()[0], dropout->nonce()[1]}};
}

at::Tensor Gradient(const HearthCudaActivation& activation,
                    const at::Tensor& output, const at::Tensor& gradient) {
  at::Tensor result = at::empty_like(gradient);
  DeviceKernels::Queue(output.device(), [&](cuda::Stream& stream) {
    return stream.ActivationGradient(
        {.activation = activation,
         .count = result.numel(),
         // The gradient reads it alone.
         .output = const_cast<float*>(output.const_data_ptr<float>()),
         .gradient = gradient.const_data_ptr<float>(),
         .result = result.mutable_data_ptr<float>()});
  });
  return result;
}

}  // namespace

void ActivateOnDevice(const at::Tensor& x, float slope,
                      const std::optional<DropoutPattern>& dropout) {
  DeviceKernels::Queue(x.device(), [&](cuda::Stream& stream) {
    return stream.Activate({.activation = ActivationOf(slope, dropout),
                            .count = x.numel(),
                            .output = x.mutable_data_ptr<float>(),
                            .gradient = nullptr,
                            .result = nullptr});
  });
}

at::Tensor GradientOnDevice(const at::Tensor& output,
                            const at::Tensor& gradient, float slope,
                            const std::optional<DropoutPattern>& dropout) {
  return Gradient(ActivationOf(slope, dropout), output, gradient);
}

at::Tensor ReluGradientOnDevice(const at::Tensor& output,
                                const at::Tensor& gradient, float scale) {
  return Gradient(Plain(/*slope=*/0, scale), output, gradient);
}

}  // namespace hearth::model
