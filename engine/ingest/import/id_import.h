#ifndef HEARTH_ENGINE_INGEST_IMPORT_ID_IMPORT_H_
#define HEARTH_ENGINE_INGEST_IMPORT_ID_IMPORT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/import_context.h"
#include "engine/store/array_writer.h"

/// Import of the ids that the source gives its nodes.

namespace hearth::ingest {

/// OK if `ids` is an int64 array of shape (num_nodes,).
absl::Status CheckIdHeader(const ArrayReader& ids, int64_t num_nodes);

/// OK if `text` is a uint8 array of one dimension.
absl::Status CheckIdTextHeader(const ArrayReader& text);

/// Copies the ids to "ids", whatever they are. REQUIRES: CheckIdHeader.
absl::StatusOr<store::FinishedArray> CopyIds(ImportContext& context,
                                             ArrayReader& ids,
                                             const store::ArrayPlace& place);

/// Copies ids with a line feed between each and the next to "id_text".
/// INVALID_ARGUMENT if they are not `num_nodes` or one is empty.
/// REQUIRES: CheckIdTextHeader.
absl::StatusOr<store::FinishedArray> CopyIdText(ImportContext& context,
                                                ArrayReader& text,
                                                int64_t num_nodes,
                                                const store::ArrayPlace& place);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_ID_IMPORT_H_
