#ifndef HEARTH_ENGINE_MODEL_CPU_GRADIENT_SUM_H_
#define HEARTH_ENGINE_MODEL_CPU_GRADIENT_SUM_H_

#include "absl/types/span.h"

namespace hearth::model {

/// Replaces part `part` of every array by the sum of that part over all arrays.
/// Parts 0 .. parts - 1 cover the arrays without overlap, and several threads
/// may sum different parts at the same time. Each element is array 0's plus
/// array 1's plus array 2's and so on, rounded after each addition, so the sum
/// is equal in every bit in all arrays, and depends neither on the number of
/// parts nor on who sums which. REQUIRES: at least one array, all of one size,
/// none overlapping another; 0 <= part < parts.
void SumPart(absl::Span<const absl::Span<float>> arrays, int part, int parts);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_CPU_GRADIENT_SUM_H_
