#include "engine/model/initializer.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "engine/base/random.h"

namespace hearth::model {

at::Tensor Initializer::Linear(at::IntArrayRef shape, int64_t fan_in) {
  return Uniform(shape, 1 / std::sqrt(static_cast<double>(fan_in)));
}

at::Tensor Initializer::Glorot(at::IntArrayRef shape) {
  const auto sum = static_cast<double>(shape[shape.size() - 2] + shape.back());
  return Uniform(shape, std::sqrt(6 / sum));
}

at::Tensor Initializer::Zeros(int64_t size) {
  ++parameter_;
  return at::zeros({size}, at::kFloat).to(device_).requires_grad_();
}

at::Tensor Initializer::Uniform(at::IntArrayRef shape, double bound) {
  RandomStream stream(model_seed_, RandomPurpose::kInitialWeights, layer_,
                      parameter_++);
  at::Tensor result = at::empty(shape, at::kFloat);
  auto* data = result.mutable_data_ptr<float>();
  for (int64_t i = 0; i < result.numel(); ++i) {
    data[i] =
        static_cast<float>((2 * double{stream.UniformFloat()} - 1) * bound);
  }
  return result.to(device_).requires_grad_();
}

}  // namespace hearth::model
