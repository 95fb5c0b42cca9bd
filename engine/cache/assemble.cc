#include "engine/cache/assemble.h"

#include <algorithm>
#include <cassert>

#include "kernels/copy_rows.h"

namespace hearth::cache {
namespace {

kernels::ElementType ToElementType(store::DType dtype) {
  switch (dtype) {
    case store::DType::kFloat16:
      return kernels::ElementType::kFloat16;
    case store::DType::kBFloat16:
      return kernels::ElementType::kBFloat16;
    case store::DType::kScaledInt8:
      return kernels::ElementType::kScaledInt8;
    default:
      assert(dtype == store::DType::kFloat32);
      return kernels::ElementType::kFloat32;
  }
}

kernels::FeatureRows ToFeatureRows(const StoredRows& rows) {
  return {
      .data = rows.data, .type = ToElementType(rows.dtype), .dim = rows.dim};
}

}  // namespace

void AssembleRows(const StoredRows& rows, absl::Span<const int64_t> indices,
                  float* out) {
  kernels::GatherRows(ToFeatureRows(rows), indices.data(),
                      static_cast<int64_t>(indices.size()), out);
}

void WidenRow(const store::RowFormat& format, const std::byte* row,
              float* out) {
  AssembleRows(
      StoredRows{.data = row, .dtype = format.dtype, .dim = format.dim}, {0},
      out);
}

void ScatterRows(const StoredRows& rows, absl::Span<const int64_t> slots,
                 absl::Span<const int32_t> positions, float* out) {
  assert(slots.size() == positions.size());
  // The address of an empty list is null, which would mean rows in their order.
  if (slots.empty()) return;
  kernels::ScatterRows(ToFeatureRows(rows), slots.data(), positions.data(),
                       static_cast<int64_t>(positions.size()), out);
}

void ScatterRows(const StoredRows& rows, absl::Span<const int32_t> positions,
                 float* out) {
  kernels::ScatterRows(ToFeatureRows(rows), nullptr, positions.data(),
                       static_cast<int64_t>(positions.size()), out);
}

void ScatterRows(ThreadTeam& team, const StoredRows& rows,
                 absl::Span<const int64_t> slots,
                 absl::Span<const int32_t> positions, float* out) {
  team.RunRanges(std::ssize(positions), kRowsPerPart,
                 [&](int64_t first, int64_t count) {
                   ScatterRows(rows, slots.subspan(first, count),
                               positions.subspan(first, count), out);
                 });
}

void ScatterRows(ThreadTeam& team, const StoredRows& rows,
                 absl::Span<const int32_t> positions, float* out) {
  const store::RowFormat format = {.dim = rows.dim, .dtype = rows.dtype};
  team.RunRanges(std::ssize(positions), kRowsPerPart,
                 [&](int64_t first, int64_t count) {
                   StoredRows part = rows;
                   part.data += first * format.row_bytes();
                   ScatterRows(part, positions.subspan(first, count), out);
                 });
}

void AssembleRows(const store::LoadedFeatures& features,
                  absl::Span<const store::NodeId> nodes, float* out) {
  assert(std::all_of(nodes.begin(), nodes.end(), [&](store::NodeId node) {
    return 0 <= node && node < features.num_rows();
  }));
  if (features.tables().empty()) {
    AssembleRows(StoredRows{.data = features.rows(),
                            .dtype = features.dtype(),
                            .dim = features.dim()},
                 nodes, out);
    return;
  }
  for (const store::NodeId node : nodes) {
    const store::FeatureTable& table = features.TableOf(node);
    WidenRow(table.format, table.row(node), out);
    std::fill(out + table.format.dim, out + features.dim(), 0.0f);
    out += features.dim();
  }
}

}  // namespace hearth::cache
