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

/// Arrays of a topology in CSC: writing them, copying them from a source that
/// has them, and reading them back before the dataset is complete.

namespace hearth::ingest {

/// Element type of indices into `num_sources` nodes: int32 if all ids fit,
/// otherwise int64.
store::DType IndexType(int64_t num_sources);

/// Written arrays of a topology.
struct CscArrays {
  store::FinishedArray indptr;
  store::FinishedArray indices;
};

/// Writes the arrays of a topology from the first node to the last.
/// Single-owner.
class CscWriter {
 public:
  /// Creates the files `place`.prefix + ".indptr.npy" and ".indices.npy".
  static absl::StatusOr<std::unique_ptr<CscWriter>> Create(
      io::FileSystem& files, const store::ArrayPlace& place,
      const EdgeEnds& ends, int64_t num_edges);

  /// Appends elements to indptr.
  absl::Status AppendOffsets(absl::Span<const int64_t> offsets);

  /// Appends elements to indices, narrowed to int32 if IndexType says so.
  absl::Status AppendNeighbors(absl::Span<const int64_t> neighbors);

  /// Appends elements to indices. REQUIRES: IndexType is int32.
  absl::Status AppendNeighbors(absl::Span<const int32_t> neighbors);

  absl::StatusOr<CscArrays> Finish();

 private:
  CscWriter() = default;

  std::unique_ptr<store::ArrayWriter> indptr_;
  std::unique_ptr<store::ArrayWriter> indices_;
  bool narrow_ = false;
  std::vector<int32_t> narrowed_;
};

/// Opens an array that the import has written to `folder` or registered. Reads
/// compare it with its checksums: results that are computed from it get
/// checksums of their own, which would hide damage.
absl::StatusOr<std::unique_ptr<ArrayReader>> OpenWritten(
    io::FileSystem& files, const std::string& folder,
    const store::ArrayFile& array);

/// INVALID_ARGUMENT unless both are integer arrays of one dimension, and indptr
/// has one element more than there are destinations.
absl::Status CheckCscHeaders(const ArrayReader& indptr,
                             const ArrayReader& indices, const EdgeEnds& ends);

/// Copies a topology that is in CSC already. INVALID_ARGUMENT if indptr does
/// not begin with 0, descends, or does not end with the number of edges, or if
/// an id is out of range. REQUIRES: CheckCscHeaders.
absl::StatusOr<CscArrays> CopyCsc(ImportContext& context, ArrayReader& indptr,
                                  ArrayReader& indices, const EdgeEnds& ends,
                                  const store::ArrayPlace& place);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_CSC_ARRAYS_H_
