#ifndef HEARTH_ENGINE_MODEL_LAYERS_PARAMETERS_H_
#define HEARTH_ENGINE_MODEL_LAYERS_PARAMETERS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/store/safetensors.h"

/// Parameters of layers: drawing, naming, copying and checking.

namespace hearth::model {

/// A tensor with the name under which it is saved.
struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// Copies `tensors` (float32 or int64, contiguous) to `result`, as
/// "`prefix`name".
void CopyOut(const std::string& prefix, const std::vector<NamedTensor>& tensors,
             store::TensorMap& result);

/// DATA_LOSS, naming the tensor, unless `source` has each of `tensors` as
/// "`prefix`name" with equal type and shape.
absl::Status CheckFits(const std::string& prefix,
                       const std::vector<NamedTensor>& tensors,
                       const store::TensorMap& source);

/// Copies "`prefix`name" of `source` into each of `tensors`. REQUIRES:
/// CheckFits.
void CopyIn(const std::string& prefix, const store::TensorMap& source,
            const std::vector<NamedTensor>& tensors);

/// Makes the parameters of one layer, each drawn from a stream of its own,
/// keyed by (model seed, layer, number of the parameter). They have the
/// distributions of PyTorch Geometric's layers, and equal values on every
/// device. Throws what LibTorch throws.
class Initializer {
 public:
  Initializer(uint64_t model_seed, uint64_t layer, const at::Device& device)
      : model_seed_(model_seed), layer_(layer), device_(device) {}

  /// Weight or bias of torch.nn.Linear: Kaiming-uniform with a = sqrt(5), which
  /// is uniform within 1 / sqrt(fan_in).
  at::Tensor Linear(at::IntArrayRef shape, int64_t fan_in);

  /// Uniform by Glorot and Bengio (2010), over the last two dimensions as in
  /// PyG.
  at::Tensor Glorot(at::IntArrayRef shape);

  at::Tensor Zeros(int64_t size);

 private:
  at::Tensor Uniform(at::IntArrayRef shape, double bound);

  uint64_t model_seed_;
  uint64_t layer_;
  at::Device device_;
  uint64_t parameter_ = 0;
};

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_LAYERS_PARAMETERS_H_
