#ifndef HEARTH_ENGINE_INGEST_IMPORT_FEATURE_WRITER_H_
#define HEARTH_ENGINE_INGEST_IMPORT_FEATURE_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/store/array_writer.h"
#include "engine/store/block_checksums.h"
#include "engine/store/dtype.h"

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

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_FEATURE_WRITER_H_
