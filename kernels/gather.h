#ifndef HEARTH_KERNELS_GATHER_H_
#define HEARTH_KERNELS_GATHER_H_

#include <cstddef>
#include <cstdint>

/// Gathering feature rows on the CPU: SIMD, no allocation, no threads of its
/// own.

namespace hearth::kernels {

/// What an element of a feature matrix is.
enum class ElementType { kFloat32, kFloat16, kBFloat16 };

/// A feature matrix: dense, row-major, of any alignment (a user's file may be
/// mapped as it is).
struct FeatureRows {
  const std::byte* data = nullptr;
  ElementType type = ElementType::kFloat32;
  /// Elements of a row.
  int64_t dim = 0;
};

/// out[i] = row indices[i] of `source`, widened to float32, for i < count.
/// Widening is exact and the same on every processor: infinities, subnormals
/// and the payload of NaNs stay. `out` [count, dim] must not overlap the
/// source. Indices may repeat; they are not checked. Thread-safe.
void GatherRows(const FeatureRows& source, const int64_t* indices,
                int64_t count, float* out);

}  // namespace hearth::kernels

#endif  // HEARTH_KERNELS_GATHER_H_
