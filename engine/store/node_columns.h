#ifndef HEARTH_ENGINE_STORE_NODE_COLUMNS_H_
#define HEARTH_ENGINE_STORE_NODE_COLUMNS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"

namespace hearth::store {

/// Numbers about nodes, such as profiles and scores, in a file of their own:
/// columns with a value for each node, and scalars about all nodes.
struct NodeColumns {
  /// Numbers about all nodes together; integers up to 2^53 are exact.
  std::vector<double> scalars;
  /// [columns][num_nodes].
  std::vector<std::vector<float>> columns;
};

/// Name, version and shape of a kind of file of node columns.
struct NodeColumnsKind {
  /// For messages, such as "profile of an epoch"; also part of the file.
  absl::string_view name;
  uint32_t version = 1;
  size_t num_scalars = 0;
  size_t num_columns = 1;
};

/// Bytes of a file of this kind for a graph of `num_nodes`.
uint64_t NodeColumnsBytes(const NodeColumnsKind& kind, int64_t num_nodes);

/// Replaces the file `path`, durably. REQUIRES: as many scalars and columns as
/// the kind says; columns of one length.
absl::Status WriteNodeColumns(
    io::FileSystem& files, const std::string& path, const NodeColumnsKind& kind,
    absl::Span<const double> scalars,
    absl::Span<const absl::Span<const float>> columns);

/// Reads a file of WriteNodeColumns for a graph of `num_nodes`. NOT_FOUND if it
/// does not exist; DATA_LOSS, naming the file, if it is damaged or of another
/// kind or graph; FAILED_PRECONDITION if it is of another version.
absl::StatusOr<NodeColumns> ReadNodeColumns(io::FileSystem& files,
                                            const std::string& path,
                                            const NodeColumnsKind& kind,
                                            int64_t num_nodes);

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_NODE_COLUMNS_H_
