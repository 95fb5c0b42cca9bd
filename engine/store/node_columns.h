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

/// Figures about nodes, and some about all of them together, that are kept in a
/// file of their own.
struct NodeColumns {
  /// About all nodes; whole numbers up to 2^53 are exact.
  std::vector<double> facts;
  /// [columns][num_nodes].
  std::vector<std::vector<float>> columns;
};

/// Requirements on a file of node columns.
struct NodeColumnsKind {
  /// For people: "profile of an epoch". In the file, too.
  absl::string_view name;
  uint32_t version = 1;
  size_t num_facts = 0;
  size_t num_columns = 1;
};

/// Bytes of such a file of a graph of `num_nodes`.
uint64_t NodeColumnsBytes(const NodeColumnsKind& kind, int64_t num_nodes);

/// Replaces the file `path`, durably. REQUIRES: as many facts and columns as
/// the kind says; columns of one length.
absl::Status WriteNodeColumns(
    io::FileSystem& files, const std::string& path, const NodeColumnsKind& kind,
    absl::Span<const double> facts,
    absl::Span<const absl::Span<const float>> columns);

/// Reads what WriteNodeColumns wrote for a graph of `num_nodes`. NOT_FOUND if
/// it is not there; DATA_LOSS, naming the file, if it is damaged or something
/// else; FAILED_PRECONDITION if it is of another version.
absl::StatusOr<NodeColumns> ReadNodeColumns(io::FileSystem& files,
                                            const std::string& path,
                                            const NodeColumnsKind& kind,
                                            int64_t num_nodes);

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_NODE_COLUMNS_H_
