#ifndef HEARTH_ENGINE_INGEST_IMPORT_FEATURE_IMPORT_H_
#define HEARTH_ENGINE_INGEST_IMPORT_FEATURE_IMPORT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/ingest/import/import_options.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/import_context.h"
#include "engine/io/file_system.h"
#include "engine/store/array_type.h"
#include "engine/store/array_writer.h"
#include "engine/store/block_checksums.h"
#include "engine/store/npy.h"

/// Import of features: reading, checking and converting them in a pipeline of
/// threads, and writing or registering them.

namespace hearth::ingest {

/// Writes a feature matrix and its two checksum files, from the first row to
/// the last. Single-owner.
class FeatureWriter {
 public:
  static absl::StatusOr<FeatureWriter> Create(io::FileSystem& files,
                                              const store::ArrayPlace& place,
                                              store::DType dtype,
                                              std::vector<int64_t> shape);

  /// Appends rows; see store::ArrayWriter::Append.
  absl::Status Append(absl::Span<const std::byte> rows);

  absl::StatusOr<store::FinishedArray> Finish();

 private:
  FeatureWriter(std::unique_ptr<store::ArrayWriter> array,
                std::unique_ptr<store::BlockChecksumWriter> row_checksums)
      : array_(std::move(array)), row_checksums_(std::move(row_checksums)) {}

  std::unique_ptr<store::ArrayWriter> array_;
  std::unique_ptr<store::BlockChecksumWriter> row_checksums_;
};

/// Name of the array of features in file names.
inline constexpr char kFeatures[] = "features";

/// Creates the file of row checksums for `features`, which is in `place` or
/// registered from there.
absl::StatusOr<std::unique_ptr<store::BlockChecksumWriter>> NewRowChecksums(
    io::FileSystem& files, const store::ArrayPlace& place,
    const store::ArrayFile& features);

/// Called on the caller's thread, with one block after another.
using VisitRows = absl::FunctionRef<absl::Status(const RowBlock& rows)>;

/// Converts the rows of a block to their stored form: written to `to`, which is
/// aligned to 4 KiB and large enough for the rows in either form. Returns the
/// number of bytes written. Called on a thread of its own, with one block after
/// another.
using ConvertRows = std::function<absl::StatusOr<uint64_t>(
    const RowBlock& rows, absl::Span<std::byte> to)>;

struct RowConversion {
  /// Bytes of an item in stored form.
  int64_t item_bytes = 0;
  ConvertRows convert;
};

/// Calls `visit` with all rows of a matrix, block by block, and reads ahead
/// meanwhile (see RowSource). RESOURCE_EXHAUSTED if a row does not fit a
/// sixteenth of the memory limit. All blocks together take at most three
/// quarters of the limit.
absl::Status ForEachRowBlock(ImportContext& context, ArrayReader& matrix,
                             VisitRows visit);

/// As ForEachRowBlock, but calls `visit` with the rows that `conversion` makes.
/// Progress counts bytes of the source.
absl::Status ForEachConvertedBlock(ImportContext& context, ArrayReader& matrix,
                                   const RowConversion& conversion,
                                   VisitRows visit);

/// Index of the first element that is NaN or infinite; -1 if there is none.
/// REQUIRES: type.IsFloat().
int64_t FindNonFinite(absl::Span<const std::byte> elements,
                      store::ElementType type);

/// Sets NaN and infinite elements to 0; returns how many there were. REQUIRES:
/// type.IsFloat().
uint64_t ZeroNonFinite(absl::Span<std::byte> elements, store::ElementType type);

/// INVALID_ARGUMENT unless `features` has shape (N, D), or (N,) for one column,
/// without zero dimensions.
absl::Status CheckFeatureShape(const ArrayReader& features);

/// INVALID_ARGUMENT unless `features` is an array of numbers of shape (N, D),
/// without zero dimensions. Refuses integers of 2 bytes, which may be bfloat16.
/// To be registered `in_place`, it must have floats of 2 or 4 bytes, in C
/// order, in a file of its own.
absl::Status CheckFeatureHeader(const ArrayReader& features, bool in_place);

/// Element type that features are stored as: float32 for float64, integers and
/// bools, otherwise their own.
store::DType StoredType(const store::ArrayHeader& features);

/// Called with all rows in stored form, block by block; perhaps on another
/// thread, which ends before the function that was given the observer returns.
using RowObserver = std::function<absl::Status(const RowBlock& rows)>;

struct FeatureChoices {
  NonFinite non_finite = NonFinite::kRefuse;
  /// May be empty.
  RowObserver observer = nullptr;
};

struct ImportedFeatures {
  store::FinishedArray array;
  /// Values that were NaN or infinite and became 0.
  uint64_t num_zeroed = 0;
};

/// Writes features row by row, from any order in the source, past the page
/// cache. Reading, checking and writing overlap. INVALID_ARGUMENT naming the
/// first NaN or infinity, if those are refused, or the first value that does
/// not fit float32: a float64 out of range or an integer beyond 2^24.
/// RESOURCE_EXHAUSTED if a row does not fit the memory limit. REQUIRES:
/// CheckFeatureHeader.
absl::StatusOr<ImportedFeatures> CopyFeatures(ImportContext& context,
                                              ArrayReader& features,
                                              const FeatureChoices& choices,
                                              const store::ArrayPlace& place);

/// Checks features as CopyFeatures does, but writes only their checksums: the
/// array stays at `real_path`. FAILED_PRECONDITION if it changes meanwhile.
/// REQUIRES: choices.non_finite is not kZero.
absl::StatusOr<store::FinishedArray> RegisterFeatures(
    ImportContext& context, ArrayReader& features,
    const FeatureChoices& choices, const std::string& real_path,
    const store::ArrayPlace& place);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_FEATURE_IMPORT_H_
