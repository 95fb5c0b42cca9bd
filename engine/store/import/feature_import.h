#ifndef HEARTH_ENGINE_STORE_IMPORT_FEATURE_IMPORT_H_
#define HEARTH_ENGINE_STORE_IMPORT_FEATURE_IMPORT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/store/array_reader.h"
#include "engine/store/array_writer.h"
#include "engine/store/dtype.h"
#include "engine/store/import/import_context.h"

namespace hearth::store {

/// That `features` is a float array of shape (N, D), neither of them 0; and,
/// to be registered `in_place`, of 2 or 4 bytes each, in C order, in a file of
/// their own.
absl::Status CheckFeatureHeader(const ArrayReader& features, bool in_place);

/// What features are stored as: float64 becomes float32.
DType StoredType(const ArrayHeader& features);

/// Writes features row by row, whatever their order in the source.
/// INVALID_ARGUMENT naming the first NaN, infinity, or value that a float32
/// cannot hold; RESOURCE_EXHAUSTED if a row does not fit the memory limit.
/// REQUIRES: CheckFeatureHeader.
absl::StatusOr<FinishedArray> CopyFeatures(ImportContext& context,
                                           ArrayReader& features,
                                           const ArrayPlace& place);

/// Checks features as CopyFeatures does, and writes their checksums alone: the
/// array stays at `real_path`. FAILED_PRECONDITION if it changes meanwhile.
absl::StatusOr<FinishedArray> RegisterFeatures(ImportContext& context,
                                               ArrayReader& features,
                                               const std::string& real_path,
                                               const ArrayPlace& place);

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_IMPORT_FEATURE_IMPORT_H_
