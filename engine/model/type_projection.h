#ifndef HEARTH_ENGINE_MODEL_TYPE_PROJECTION_H_
#define HEARTH_ENGINE_MODEL_TYPE_PROJECTION_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "engine/model/initializer.h"
#include "engine/model/named_tensor.h"
#include "engine/model/relation_schema.h"
#include "engine/store/topology.h"

namespace hearth::model {

/// A linear layer for each node type, which brings rows of several widths to
/// one. Single-owner. Throws what LibTorch throws.
class TypeProjection {
 public:
  TypeProjection(const RelationSchema& schema, int64_t out,
                 Initializer initializer);

  /// [rows, out] for `x`, of whose rows the columns of their types are read;
  /// `types` of each, empty: all are of type 0.
  at::Tensor Forward(const at::Tensor& x,
                     absl::Span<const store::TypeId> types) const;

  /// "proj.TYPE.weight", "proj.TYPE.bias".
  std::vector<NamedTensor> parameters() const;

 private:
  const RelationSchema schema_;
  const int64_t out_;
  // By node type.
  std::vector<at::Tensor> weights_;
  std::vector<at::Tensor> biases_;
};

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_TYPE_PROJECTION_H_
