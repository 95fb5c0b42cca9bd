#ifndef HEARTH_ENGINE_MODEL_NAMED_TENSOR_H_
#define HEARTH_ENGINE_MODEL_NAMED_TENSOR_H_

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/store/safetensors.h"

namespace hearth::model {

/// A tensor of LibTorch with the name under which it is saved.
struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// Copies of `tensors` (float32 or int64, contiguous) as "`prefix`name" in
/// `result`.
void CopyOut(const std::string& prefix, const std::vector<NamedTensor>& tensors,
             store::TensorMap& result);

/// DATA_LOSS, naming the tensor, unless `source` has each of `tensors` as
/// "`prefix`name" with its type and shape.
absl::Status CheckFits(const std::string& prefix,
                       const std::vector<NamedTensor>& tensors,
                       const store::TensorMap& source);

/// Copies "`prefix`name" of `source` into each of `tensors`. REQUIRES:
/// CheckFits.
void CopyIn(const std::string& prefix, const store::TensorMap& source,
            const std::vector<NamedTensor>& tensors);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_NAMED_TENSOR_H_
