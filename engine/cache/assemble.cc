#include "engine/cache/assemble.h"

#include <algorithm>
#include <cassert>

#include "kernels/gather.h"

namespace hearth::cache {
namespace {

kernels::ElementType ToElementType(store::DType dtype) {
  switch (dtype) {
    case store::DType::kFloat16:
      return kernels::ElementType::kFloat16;
    case store::DType::kBFloat16:
      return kernels::ElementType::kBFloat16;
    default:
      assert(dtype == store::DType::kFloat32);
      return kernels::ElementType::kFloat32;
  }
}

}  // namespace

void AssembleRows(const StoredRows& rows, absl::Span<const int64_t> indices,
                  float* out) {
  const kernels::FeatureRows source{
      .data = rows.data, .type = ToElementType(rows.dtype), .dim = rows.dim};
  kernels::GatherRows(source, indices.data(),
                      static_cast<int64_t>(indices.size()), out);
}

void AssembleRows(const store::LoadedFeatures& features,
                  absl::Span<const store::NodeId> nodes, float* out) {
  assert(std::all_of(nodes.begin(), nodes.end(), [&](store::NodeId node) {
    return 0 <= node && node < features.num_rows();
  }));
  AssembleRows(StoredRows{.data = features.rows(),
                          .dtype = features.dtype(),
                          .dim = features.dim()},
               nodes, out);
}

}  // namespace hearth::cache
