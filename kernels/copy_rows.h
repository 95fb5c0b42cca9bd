#ifndef HEARTH_KERNELS_COPY_ROWS_H_
#define HEARTH_KERNELS_COPY_ROWS_H_

#include <cstddef>
#include <cstdint>

/// Gathering and scattering feature rows on the CPU: SIMD, no allocation, no
/// threads of its own. Thread-safe. Rows are widened to float32 as by widen.h,
/// the same on every processor. Indices are not checked.

namespace hearth::kernels {

/// Element type of a feature matrix. Rows of kScaledInt8 are int8s with their
/// scale behind them (widen.h), without padding.
enum class ElementType { kFloat32, kFloat16, kBFloat16, kScaledInt8 };

/// A feature matrix: dense, row-major, of any alignment (a user's file may be
/// mapped in place).
struct FeatureRows {
  const std::byte* data = nullptr;
  ElementType type = ElementType::kFloat32;
  /// Elements of a row.
  int64_t dim = 0;
};

/// Rows of two matrices of one format, of any alignment, such as the slots of a
/// cache and the rows that were read for a batch.
struct AddressedRows {
  const std::byte* slots = nullptr;
  const std::byte* landed = nullptr;
  /// Addresses below this are rows of `slots`; address num_slots + j is row j
  /// of `landed`.
  uint32_t num_slots = 0;
  ElementType type = ElementType::kFloat32;
  /// Elements of a row.
  int64_t dim = 0;
  /// The address of each row.
  const uint32_t* addresses = nullptr;
};

/// out[i] = row indices[i] of `source`, widened to float32, for i < count.
/// `out` [count, dim] must not overlap the source. Indices may repeat.
void GatherRows(const FeatureRows& source, const int64_t* indices,
                int64_t count, float* out);

/// out[i] = row first + i of `source`, by its address, widened to float32, for
/// i < count. `out` [count, dim] must not overlap the source.
void GatherRows(const AddressedRows& source, int64_t first, int64_t count,
                float* out);

/// Row positions[i] of `out` = row slots[i] of `source`, or row i where `slots`
/// is null, widened to float32, for i < count. `out` [.., dim] must not overlap
/// the source; its other rows stay as they are. Slots may repeat; of equal
/// positions the last one counts.
void ScatterRows(const FeatureRows& source, const int64_t* slots,
                 const int32_t* positions, int64_t count, float* out);

}  // namespace hearth::kernels

#endif  // HEARTH_KERNELS_COPY_ROWS_H_
