#include "engine/model/named_tensor.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <cstring>

#include "absl/strings/str_cat.h"

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

}  // namespace hearth::model
