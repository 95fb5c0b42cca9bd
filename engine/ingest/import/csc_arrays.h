#ifndef HEARTH_ENGINE_INGEST_IMPORT_CSC_ARRAYS_H_
#define HEARTH_ENGINE_INGEST_IMPORT_CSC_ARRAYS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/ingest/source/edge_source.h"
#include "engine/io/file_system.h"
#include "engine/store/array_writer.h"
#include "engine/store/dtype.h"

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

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_CSC_ARRAYS_H_
