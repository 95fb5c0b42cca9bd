#ifndef HEARTH_ENGINE_STORE_ROW_BLOCKS_H_
#define HEARTH_ENGINE_STORE_ROW_BLOCKS_H_

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/store/import_context.h"
#include "engine/store/npy_reader.h"

namespace hearth::store {

/// Consecutive rows of a matrix, row-major, as they are stored.
struct RowBlock {
  int64_t first_row = 0;
  int64_t num_rows = 0;
  absl::Span<const std::byte> bytes;
};

/// Calls `visit` with all rows of a matrix, block after block. A matrix in
/// Fortran order is transposed on the way: a block then takes a read for each
/// column, so its blocks are as large as an eighth of the memory limit.
/// RESOURCE_EXHAUSTED if a row does not fit that.
absl::Status ForEachRowBlock(
    ImportContext& context, NpyReader& matrix,
    absl::FunctionRef<absl::Status(const RowBlock&)> visit);

/// The first element that is NaN or infinite; -1 if there is none. Elements
/// are floats of `item_bytes` (2, 4 or 8).
int64_t FindNonFinite(absl::Span<const std::byte> elements, int64_t item_bytes);

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_ROW_BLOCKS_H_
