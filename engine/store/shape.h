#ifndef HEARTH_ENGINE_STORE_SHAPE_H_
#define HEARTH_ENGINE_STORE_SHAPE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/types/span.h"

namespace hearth::store {

/// Bytes of an array of `shape` with elements of `item_bytes`; nothing if a
/// dimension is negative or the product does not fit an int64.
std::optional<int64_t> ArrayBytes(absl::Span<const int64_t> shape,
                                  int64_t item_bytes);

/// "(3, 4)", "(5,)", "()": as numpy prints shapes.
std::string FormatShape(absl::Span<const int64_t> shape);

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_SHAPE_H_
