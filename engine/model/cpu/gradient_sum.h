#ifndef HEARTH_ENGINE_MODEL_CPU_GRADIENT_SUM_H_
#define HEARTH_ENGINE_MODEL_CPU_GRADIENT_SUM_H_

#include "absl/types/span.h"

namespace hearth::model {

/// Replaces part `part` of every array by the sum of all arrays there. Parts
/// 0 .. parts - 1 cover the arrays, do not overlap, and may be added up by
/// several threads at the same time. Each element is array 0's plus array 1's
/// plus array 2's and so on, rounded after each addition, so the sum depends
/// neither on the number of parts nor on who adds up which, and is the same in
/// every bit in all arrays. REQUIRES: at least one array, all of one size, none
/// overlapping another; 0 <= part < parts.
void SumPart(absl::Span<const absl::Span<float>> arrays, int part, int parts);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_CPU_GRADIENT_SUM_H_
