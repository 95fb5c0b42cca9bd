#ifndef HEARTH_ENGINE_STORE_CSC_COPY_H_
#define HEARTH_ENGINE_STORE_CSC_COPY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/store/csc_arrays.h"
#include "engine/store/import_context.h"
#include "engine/store/npy_reader.h"

namespace hearth::store {

/// That both are integer arrays of one dimension, indptr of num_nodes + 1.
absl::Status CheckCscHeaders(const NpyReader& indptr, const NpyReader& indices,
                             int64_t num_nodes);

/// Copies a topology that is in CSC already, checking that indptr begins with
/// 0, never descends and ends with the number of edges, and that every id is
/// in range. REQUIRES: CheckCscHeaders.
absl::StatusOr<CscArrays> CopyCsc(ImportContext& context, NpyReader& indptr,
                                  NpyReader& indices, const ArrayPlace& place);

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_CSC_COPY_H_
