#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_SCATTER_ROWS_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_SCATTER_ROWS_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "engine/cache/direct_cache.h"

/// The feature assembler's copies (DiskGNN, section 5.3): rows of one level, as
/// stored, are widened to where the batch has them. Thread-safe.

namespace hearth::strategy {

/// Puts row i of `rows`, one after the other, at positions[i] of `out`, which
/// is [.., format.dim] float32.
void ScatterRows(const cache::RowFormat& format, const std::byte* rows,
                 absl::Span<const int32_t> positions, float* out);

/// Puts row slots[i] of `rows` at positions[i]. REQUIRES: as many of both.
void ScatterSlots(const cache::RowFormat& format, const std::byte* rows,
                  absl::Span<const int64_t> slots,
                  absl::Span<const int32_t> positions, float* out);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_SCATTER_ROWS_H_
