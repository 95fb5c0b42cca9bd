#ifndef HEARTH_ENGINE_INGEST_IMPORT_FEATURE_IMPORT_H_
#define HEARTH_ENGINE_INGEST_IMPORT_FEATURE_IMPORT_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/ingest/import/non_finite.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/row_source.h"
#include "engine/store/array_writer.h"
#include "engine/store/dtype.h"

namespace hearth::ingest {

/// OK if `features` has shape (N, D), or (N,) for one column, neither of them
/// 0.
absl::Status CheckFeatureShape(const ArrayReader& features);

/// OK if `features` is an array of shape (N, D), neither of them 0, of numbers,
/// but for integers of 2 bytes, which may be bfloat16; and, to be registered
/// `in_place`, of floats of 2 or 4 bytes each, in C order, in a file of their
/// own.
absl::Status CheckFeatureHeader(const ArrayReader& features, bool in_place);

/// The type that features are stored as: float64, integers and bools become
/// float32.
store::DType StoredType(const store::ArrayHeader& features);

/// Called with all rows, block after block, as they are stored; perhaps on
/// another thread, which has ended before the function returns.
using RowObserver = std::function<absl::Status(const RowBlock& rows)>;

struct FeatureChoices {
  NonFinite non_finite = NonFinite::kRefuse;
  /// May be empty.
  RowObserver observer = nullptr;
};

struct ImportedFeatures {
  store::FinishedArray array;
  /// Values that were NaN or infinite and are 0.
  uint64_t num_zeroed = 0;
};

/// Writes features row by row, whatever their order in the source. Reading,
/// checking and writing go on at the same time, past the page cache.
/// INVALID_ARGUMENT naming the first NaN or infinity, if they are refused, or
/// the first value that a float32 cannot hold, of integers one beyond 2^24;
/// RESOURCE_EXHAUSTED if a row does not fit the memory limit. REQUIRES:
/// CheckFeatureHeader.
absl::StatusOr<ImportedFeatures> CopyFeatures(ImportContext& context,
                                              ArrayReader& features,
                                              const FeatureChoices& choices,
                                              const store::ArrayPlace& place);

/// Checks features as CopyFeatures does, and writes their checksums alone: the
/// array stays at `real_path`. FAILED_PRECONDITION if it changes meanwhile.
/// REQUIRES: no value is to become 0.
absl::StatusOr<store::FinishedArray> RegisterFeatures(
    ImportContext& context, ArrayReader& features,
    const FeatureChoices& choices, const std::string& real_path,
    const store::ArrayPlace& place);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_FEATURE_IMPORT_H_
