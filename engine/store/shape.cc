#include "engine/store/shape.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace hearth::store {

std::optional<int64_t> ArrayBytes(absl::Span<const int64_t> shape,
                                  int64_t item_bytes) {
  int64_t bytes = item_bytes;
  for (const int64_t dimension : shape) {
    if (dimension < 0) return std::nullopt;
    if (__builtin_mul_overflow(bytes, dimension, &bytes)) return std::nullopt;
  }
  return bytes;
}

std::string FormatShape(absl::Span<const int64_t> shape) {
  return absl::StrCat("(", absl::StrJoin(shape, ", "),
                      shape.size() == 1 ? ",)" : ")");
}

}  // namespace hearth::store
