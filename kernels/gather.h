#ifndef HEARTH_KERNELS_GATHER_H_
#define HEARTH_KERNELS_GATHER_H_

#include <cstdint>

#include "kernels/feature_rows.h"

/// Gathering feature rows on the CPU: SIMD, no allocation, no threads of its
/// own.

namespace hearth::kernels {

/// out[i] = row indices[i] of `source`, widened to float32, for i < count.
/// Widening is exact and the same on every processor: infinities, subnormals
/// and the payload of NaNs stay. `out` [count, dim] must not overlap the
/// source. Indices may repeat; they are not checked. Thread-safe.
void GatherRows(const FeatureRows& source, const int64_t* indices,
                int64_t count, float* out);

}  // namespace hearth::kernels

#endif  // HEARTH_KERNELS_GATHER_H_
