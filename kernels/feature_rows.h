#ifndef HEARTH_KERNELS_FEATURE_ROWS_H_
#define HEARTH_KERNELS_FEATURE_ROWS_H_

#include <cstddef>
#include <cstdint>

namespace hearth::kernels {

/// The type of a feature matrix's elements.
enum class ElementType { kFloat32, kFloat16, kBFloat16 };

/// A feature matrix: dense, row-major, of any alignment (a user's file may be
/// mapped as it is).
struct FeatureRows {
  const std::byte* data = nullptr;
  ElementType type = ElementType::kFloat32;
  /// Elements of a row.
  int64_t dim = 0;
};

}  // namespace hearth::kernels

#endif  // HEARTH_KERNELS_FEATURE_ROWS_H_
