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

namespace hearth::ingest {

/// Writes a feature matrix with both of its checksum files, from the first row
/// to the last. Single-owner.
class FeatureWriter {
 public:
  static absl::StatusOr<FeatureWriter> Create(io::FileSystem& files,
                                              const store::ArrayPlace& place,
                                              store::DType dtype,
                                              std::vector<int64_t> shape);

  /// The next rows; see store::ArrayWriter::Append.
  absl::Status Append(absl::Span<const std::byte> rows);

  absl::StatusOr<store::FinishedArray> Finish();

 private:
  FeatureWriter(std::unique_ptr<store::ArrayWriter> array,
                std::unique_ptr<store::BlockChecksumWriter> row_checksums)
      : array_(std::move(array)), row_checksums_(std::move(row_checksums)) {}

  std::unique_ptr<store::ArrayWriter> array_;
  std::unique_ptr<store::BlockChecksumWriter> row_checksums_;
};

/// "features": what the file of a feature matrix is called.
inline constexpr char kFeatures[] = "features";

/// A writer of the checksums of the rows of `features`, which is in `place` or
/// registered from there.
absl::StatusOr<std::unique_ptr<store::BlockChecksumWriter>> NewRowChecksums(
    io::FileSystem& files, const store::ArrayPlace& place,
    const store::ArrayFile& features);

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
