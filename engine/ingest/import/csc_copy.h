#ifndef HEARTH_ENGINE_INGEST_IMPORT_CSC_COPY_H_
#define HEARTH_ENGINE_INGEST_IMPORT_CSC_COPY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/ingest/import/csc_arrays.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/import_context.h"

namespace hearth::ingest {

/// OK if both are integer arrays of one dimension, indptr of one element more
/// than there are destinations.
absl::Status CheckCscHeaders(const ArrayReader& indptr,
                             const ArrayReader& indices, const EdgeEnds& ends);

/// Copies a topology that is in CSC already, checking that indptr begins with
/// 0, never descends and ends with the number of edges, and that every id is
/// in range. REQUIRES: CheckCscHeaders.
absl::StatusOr<CscArrays> CopyCsc(ImportContext& context, ArrayReader& indptr,
                                  ArrayReader& indices, const EdgeEnds& ends,
                                  const store::ArrayPlace& place);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_CSC_COPY_H_
