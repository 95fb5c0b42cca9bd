#ifndef HEARTH_ENGINE_INGEST_IMPORT_CSC_ARRAYS_H_
#define HEARTH_ENGINE_INGEST_IMPORT_CSC_ARRAYS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/edge_source.h"
#include "engine/ingest/source/import_context.h"
#include "engine/io/file_system.h"
#include "engine/store/array_type.h"
#include "engine/store/array_writer.h"
#include "engine/store/manifest.h"

namespace hearth::ingest {

/// Element type of indices of `num_sources` nodes: int32 where they fit.
store::DType IndexType(int64_t num_sources);

/// The two arrays of a topology.
struct CscArrays {
  store::FinishedArray indptr;
  store::FinishedArray indices;
};

/// Writes a topology's arrays from the first node to the last. Single-owner.
class CscWriter {
 public:
  /// The files will be `place`.prefix + ".indptr.npy" and ".indices.npy".
  static absl::StatusOr<std::unique_ptr<CscWriter>> Create(
      io::FileSystem& files, const store::ArrayPlace& place,
      const EdgeEnds& ends, int64_t num_edges);

  /// The next elements of indptr.
  absl::Status AppendOffsets(absl::Span<const int64_t> offsets);

  /// The next elements of indices, narrowed as needed.
  absl::Status AppendNeighbors(absl::Span<const int64_t> neighbors);

  /// The same, of type int32. REQUIRES: IndexType is that.
  absl::Status AppendNeighbors(absl::Span<const int32_t> neighbors);

  absl::StatusOr<CscArrays> Finish();

 private:
  CscWriter() = default;

  std::unique_ptr<store::ArrayWriter> indptr_;
  std::unique_ptr<store::ArrayWriter> indices_;
  bool narrow_ = false;
  std::vector<int32_t> narrowed_;
};

/// An array that the import wrote to `folder`, or registered, checked as it is
/// read: what is made of it goes into the dataset, whose checksums would make
/// damage look right.
absl::StatusOr<std::unique_ptr<ArrayReader>> OpenWritten(
    io::FileSystem& files, const std::string& folder,
    const store::ArrayFile& array);

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

#endif  // HEARTH_ENGINE_INGEST_IMPORT_CSC_ARRAYS_H_
