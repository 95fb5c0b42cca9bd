#ifndef HEARTH_ENGINE_INGEST_IMPORT_NEIGHBOR_MEANS_H_
#define HEARTH_ENGINE_INGEST_IMPORT_NEIGHBOR_MEANS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/ingest/source/import_context.h"
#include "engine/store/manifest.h"

namespace hearth::ingest {

/// Means of rows of feature matrices, one for each node after the other. Rows
/// are read when a sixteenth of the memory limit is full of them, in the order
/// of their files and at most once each; sums are taken in the order in which
/// rows came, in double, so that means do not depend on the limit.
/// Single-owner.
class NeighborMeans {
 public:
  /// Takes the mean of the next node, stored as the matrices are; valid during
  /// the call.
  using TakeMean = std::function<absl::Status(absl::Span<const std::byte>)>;

  virtual ~NeighborMeans() = default;

  /// The rows `rows` of the matrix at `matrix` are neighbors of the node.
  virtual absl::Status Add(size_t matrix, absl::Span<const int64_t> rows) = 0;

  /// The node has no more neighbors; the mean of none is 0.
  virtual absl::Status EndNode() = 0;

  /// Gives what is left.
  virtual absl::Status Finish() = 0;
};

/// `matrices` are in the dataset's `folder`, or in place; of one type and
/// width. `context` must outlive the means. RESOURCE_EXHAUSTED if a row does
/// not fit a sixteenth of the memory limit; DATA_LOSS, here or later, if a
/// matrix is not what its checksums say.
absl::StatusOr<std::unique_ptr<NeighborMeans>> NewNeighborMeans(
    ImportContext& context, const std::string& folder,
    const std::vector<const store::ArrayFile*>& matrices,
    NeighborMeans::TakeMean take);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_NEIGHBOR_MEANS_H_
