#ifndef HEARTH_ENGINE_INGEST_IMPORT_ROW_BLOCKS_H_
#define HEARTH_ENGINE_INGEST_IMPORT_ROW_BLOCKS_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/row_source.h"
#include "engine/store/array_header.h"

namespace hearth::ingest {

/// Called on the caller's thread, with one block after the other.
using VisitRows = absl::FunctionRef<absl::Status(const RowBlock& rows)>;

/// Makes of rows what is stored of them, in `to`, which is aligned to 4 KiB and
/// as large as they are, and as that; returns how many bytes that took. Called
/// on a thread of its own, for one block after the other.
using ConvertRows = std::function<absl::StatusOr<uint64_t>(
    const RowBlock& rows, absl::Span<std::byte> to)>;

struct RowConversion {
  /// Bytes of an item of a row as it is stored.
  int64_t item_bytes = 0;
  ConvertRows convert;
};

/// Calls `visit` with all rows of a matrix, block after block, while the next
/// one is read (see RowSource). RESOURCE_EXHAUSTED if a row does not fit a
/// sixteenth of the memory limit; all blocks together stay within it, and
/// leave a quarter.
absl::Status ForEachRowBlock(ImportContext& context, ArrayReader& matrix,
                             VisitRows visit);

/// The same with the rows that `conversion` makes. Progress counts bytes of the
/// source.
absl::Status ForEachConvertedBlock(ImportContext& context, ArrayReader& matrix,
                                   const RowConversion& conversion,
                                   VisitRows visit);

/// The first element that is NaN or infinite; -1 if there is none.
/// REQUIRES: type.IsFloat().
int64_t FindNonFinite(absl::Span<const std::byte> elements,
                      store::ElementType type);

/// Sets elements that are NaN or infinite to 0; returns how many there were.
/// REQUIRES: type.IsFloat().
uint64_t ZeroNonFinite(absl::Span<std::byte> elements, store::ElementType type);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_ROW_BLOCKS_H_
