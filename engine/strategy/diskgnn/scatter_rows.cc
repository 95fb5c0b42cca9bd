#include "engine/strategy/diskgnn/scatter_rows.h"

namespace hearth::strategy {

void ScatterRows(const cache::RowFormat& format, const std::byte* rows,
                 absl::Span<const int32_t> positions, float* out) {
  const int64_t row_bytes = format.row_bytes();
  for (const int32_t position : positions) {
    cache::WidenRow(format, rows, out + position * format.dim);
    rows += row_bytes;
  }
}

void ScatterSlots(const cache::RowFormat& format, const std::byte* rows,
                  absl::Span<const int64_t> slots,
                  absl::Span<const int32_t> positions, float* out) {
  // Slots are ascending but sparse, so that the processor does not foresee
  // them.
  constexpr size_t kAhead = 8;
  const int64_t row_bytes = format.row_bytes();
  for (size_t i = 0; i < slots.size(); ++i) {
    if (i + kAhead < slots.size()) {
      __builtin_prefetch(rows + slots[i + kAhead] * row_bytes);
    }
    cache::WidenRow(format, rows + slots[i] * row_bytes,
                    out + positions[i] * format.dim);
  }
}

}  // namespace hearth::strategy
