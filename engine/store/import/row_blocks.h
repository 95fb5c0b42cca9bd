#ifndef HEARTH_ENGINE_STORE_IMPORT_ROW_BLOCKS_H_
#define HEARTH_ENGINE_STORE_IMPORT_ROW_BLOCKS_H_

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/store/array_reader.h"
#include "engine/store/import/import_context.h"

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
    ImportContext& context, ArrayReader& matrix,
    absl::FunctionRef<absl::Status(const RowBlock&)> visit);

/// The first element that is NaN or infinite; -1 if there is none.
/// REQUIRES: type.IsFloat().
int64_t FindNonFinite(absl::Span<const std::byte> elements, ElementType type);

/// Sets elements that are NaN or infinite to 0; returns how many there were.
/// REQUIRES: type.IsFloat().
uint64_t ZeroNonFinite(absl::Span<std::byte> elements, ElementType type);

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_IMPORT_ROW_BLOCKS_H_
