#include "engine/model/type_projection.h"

#include <ATen/ops/zeros.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "engine/model/graph_functions.h"
#include "engine/model/relation_blocks.h"
#include "engine/model/row_functions.h"

namespace hearth::model {

TypeProjection::TypeProjection(const RelationSchema& schema, int64_t out,
                               Initializer initializer)
    : schema_(schema), out_(out) {
  for (const train::NodeTypeShape& type : schema_.node_types) {
    weights_.push_back(
        initializer.Linear({out, type.feature_dim}, type.feature_dim));
    biases_.push_back(initializer.Linear({out}, type.feature_dim));
  }
}

at::Tensor TypeProjection::Forward(
    const at::Tensor& x, absl::Span<const store::TypeId> types) const {
  const std::vector<RowsPtr> rows =
      RowsByType(types, x.size(0), schema_.node_types.size());
  at::Tensor result = at::zeros({x.size(0), out_}, x.options());
  for (size_t type = 0; type < rows.size(); ++type) {
    const RowSet set = {.rows = rows[type],
                        .columns = schema_.node_types[type].feature_dim};
    const at::Tensor projected =
        Linear(GatherRows(x, {set}).front(), weights_[type]);
    result = AddRows(AddBiasToRows(result, biases_[type], rows[type]),
                     projected, rows[type]);
  }
  return result;
}

std::vector<NamedTensor> TypeProjection::parameters() const {
  std::vector<NamedTensor> all;
  for (size_t type = 0; type < weights_.size(); ++type) {
    const std::string prefix =
        absl::StrCat("proj.", schema_.NodeKey(type), ".");
    all.push_back({prefix + "weight", weights_[type]});
    all.push_back({prefix + "bias", biases_[type]});
  }
  return all;
}

}  // namespace hearth::model
