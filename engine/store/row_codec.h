#ifndef HEARTH_ENGINE_STORE_ROW_CODEC_H_
#define HEARTH_ENGINE_STORE_ROW_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/store/array_type.h"

/// Feature rows in fewer bytes than float32, to the nearest of the numbers that
/// these can hold, ties to even:
///
///   kBFloat16    each value by itself (FloatToBFloat16): infinities and NaNs
///                stay, and values above the largest bfloat16 by half a step
///                become infinities
///   kScaledInt8  int8s q [dim], then a float32 s of any alignment: the scale,
///                max|x| / 127; q = x / s, and q * s is the value. Scales are
///                computed and divided by in float32. A row of zeros has s = 0,
///                as has one whose s would be below the smallest float32.
///
/// The same on every machine.

namespace hearth::store {

/// "bf16" for kBFloat16, "int8" for kScaledInt8. REQUIRES: one of the two.
absl::string_view RowTypeName(DType dtype);

/// The type of that name; nullopt for other names.
std::optional<DType> RowTypeNamed(absl::string_view name);

/// The scale of a row whose largest magnitude is `most`, which is finite.
float ScaleFor(float most);

/// Converts a row. `row` has RowBytes(values.size(), dtype) bytes. Returns the
/// first column of which `dtype` cannot hold the value (NaN or infinite, for
/// kScaledInt8), and then leaves `row` undefined; -1 if all are held. REQUIRES:
/// `dtype` is kBFloat16 or kScaledInt8.
int64_t EncodeRow(absl::Span<const float> values, DType dtype, std::byte* row);

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_ROW_CODEC_H_
