#ifndef HEARTH_KERNELS_SCATTER_H_
#define HEARTH_KERNELS_SCATTER_H_

#include <cstdint>

#include "kernels/feature_rows.h"

/// Scattering feature rows on the CPU: SIMD, no allocation, no threads of its
/// own.

namespace hearth::kernels {

/// Row positions[i] of `out` = row slots[i] of `source`, or row i where `slots`
/// is null, widened to float32 as by GatherRows, for i < count. `out`
/// [.., dim] must not overlap the source; its other rows stay as they are.
/// Slots may repeat; of equal positions the last one counts. Neither is
/// checked. Thread-safe.
void ScatterRows(const FeatureRows& source, const int64_t* slots,
                 const int32_t* positions, int64_t count, float* out);

}  // namespace hearth::kernels

#endif  // HEARTH_KERNELS_SCATTER_H_
