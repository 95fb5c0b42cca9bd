#include "engine/store/row_format.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "engine/store/float16.h"

namespace hearth::store {
namespace {

template <float (*kWiden)(uint16_t)>
void Widen(const std::byte* stored, size_t columns, std::byte* row) {
  for (size_t i = 0; i < columns; ++i) {
    uint16_t bits;
    std::memcpy(&bits, stored + i * sizeof(bits), sizeof(bits));
    const float value = kWiden(bits);
    std::memcpy(row + i * sizeof(value), &value, sizeof(value));
  }
}

}  // namespace

RowFormat StoredFormat(const NodeTypeEntry& type) {
  return {.dim = type.features.shape[1], .dtype = type.features.dtype};
}

RowFormat CommonFormat(const Manifest& manifest) {
  RowFormat common;
  for (const NodeTypeEntry& type : manifest.node_types) {
    if (type.features.path.empty()) continue;
    const RowFormat stored = StoredFormat(type);
    const bool same = common.dim == 0 || common.dtype == stored.dtype;
    common = {.dim = std::max(common.dim, stored.dim),
              .dtype = same ? stored.dtype : DType::kFloat32};
  }
  return common;
}

std::function<void(const std::byte*, std::byte*)> RowConversion(
    const RowFormat& from, const RowFormat& to) {
  if (from == to) return nullptr;
  assert(from.dim <= to.dim);
  const auto columns = static_cast<size_t>(from.dim);
  const auto written = static_cast<size_t>(from.dim * SizeOf(to.dtype));
  const size_t zeros = static_cast<size_t>(to.row_bytes()) - written;
  return [=](const std::byte* stored, std::byte* row) {
    if (from.dtype == to.dtype) {
      std::memcpy(row, stored, written);
    } else if (from.dtype == DType::kFloat16) {
      Widen<Float16ToFloat>(stored, columns, row);
    } else {
      Widen<BFloat16ToFloat>(stored, columns, row);
    }
    std::memset(row + written, 0, zeros);
  };
}

}  // namespace hearth::store
