#include "engine/model/layers/parameters.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/base/random.h"

namespace hearth::model {

namespace {

store::DType TypeOf(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kLong ? store::DType::kInt64
                                           : store::DType::kFloat32;
}

}  // namespace

void CopyOut(const std::string& prefix, const std::vector<NamedTensor>& tensors,
             store::TensorMap& result) {
  for (const NamedTensor& named : tensors) {
    const at::Tensor tensor = named.tensor.cpu();
    const auto* data = static_cast<const std::byte*>(tensor.const_data_ptr());
    result[prefix + named.name] =
        store::Tensor{.dtype = TypeOf(named.tensor),
                      .shape = named.tensor.sizes().vec(),
                      .data = {data, data + named.tensor.nbytes()}};
  }
}

absl::Status CheckFits(const std::string& prefix,
                       const std::vector<NamedTensor>& tensors,
                       const store::TensorMap& source) {
  for (const NamedTensor& named : tensors) {
    const std::string name = prefix + named.name;
    const auto found = source.find(name);
    if (found == source.end()) {
      return absl::DataLossError(absl::StrCat("tensor ", name, " is missing"));
    }
    const store::Tensor& tensor = found->second;
    if (tensor.dtype != TypeOf(named.tensor) ||
        tensor.shape != named.tensor.sizes().vec() ||
        tensor.data.size() != named.tensor.nbytes()) {
      return absl::DataLossError(
          absl::StrCat("tensor ", name, " has another type or shape"));
    }
  }
  return absl::OkStatus();
}

void CopyIn(const std::string& prefix, const store::TensorMap& source,
            const std::vector<NamedTensor>& tensors) {
  const at::NoGradGuard no_gradients;
  for (const NamedTensor& named : tensors) {
    const store::Tensor& saved = source.at(prefix + named.name);
    at::Tensor tensor =
        at::empty(named.tensor.sizes(), named.tensor.scalar_type());
    std::memcpy(tensor.mutable_data_ptr(), saved.data.data(),
                saved.data.size());
    named.tensor.copy_(tensor);
  }
}

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
