#ifndef HEARTH_ENGINE_INGEST_INSPECT_STATISTICS_H_
#define HEARTH_ENGINE_INGEST_INSPECT_STATISTICS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/io/file_system.h"

/// Statistics that an import counts while a graph passes by: for display, and
/// for the warnings of warnings.h. It lies beside the manifest and is no part
/// of the fingerprint.

namespace hearth::ingest {

/// At most so many classes and columns are listed.
inline constexpr size_t kMaxListedStatistics = 1000;

/// Statistics of a feature matrix, as it is stored.
struct FeatureStatistics {
  /// The least finite value; this and the next three are 0 where there is none.
  double min = 0;
  double max = 0;
  double mean = 0;
  double standard_deviation = 0;
  /// Values that are NaN or infinite.
  uint64_t num_non_finite = 0;
  /// Values that are 0.
  uint64_t num_zeros = 0;
  /// Columns with one value throughout, ascending; the first 1000.
  std::vector<uint32_t> constant_columns;
  /// Rows of nothing but 0.
  uint64_t num_zero_rows = 0;

  friend bool operator==(const FeatureStatistics&,
                         const FeatureStatistics&) = default;
};

/// Statistics of the nodes of one type.
struct NodeStatistics {
  std::string type;
  /// Nodes without any edge; absent where the memory limit did not allow to
  /// count them.
  std::optional<uint64_t> num_isolated;
  /// Nodes without a label.
  uint64_t num_unlabeled = 0;
  /// Nodes of each class; the first 1000 classes. Empty without labels.
  std::vector<uint64_t> class_counts;
  /// Absent without features.
  std::optional<FeatureStatistics> features;

  friend bool operator==(const NodeStatistics&,
                         const NodeStatistics&) = default;
};

/// Statistics of the edges of one type.
struct EdgeStatistics {
  std::string type;
  /// In-degrees of the destinations: the mean, and those that half, 99 of 100
  /// and all of them do not exceed.
  double mean_in_degree = 0;
  uint64_t median_in_degree = 0;
  uint64_t percentile_99_in_degree = 0;
  uint64_t max_in_degree = 0;
  /// Destinations without an edge.
  uint64_t num_without_in_edges = 0;
  /// Sources without an edge; absent as num_isolated.
  std::optional<uint64_t> num_without_out_edges;
  /// Edges from a node to itself; 0 between two types.
  uint64_t num_self_loops = 0;
  /// Share of the edges between labeled nodes that join equal classes; absent
  /// without such edges, between two types, and as num_isolated.
  std::optional<double> homophily;

  friend bool operator==(const EdgeStatistics&,
                         const EdgeStatistics&) = default;
};

/// All that is known of a dataset.
struct DatasetStatistics {
  /// A newer major version is refused; a newer minor one is read.
  static constexpr int kMajorVersion = 1;
  static constexpr int kMinorVersion = 0;
  static constexpr char kFileName[] = "statistics.json";

  /// In the order of the manifest.
  std::vector<NodeStatistics> nodes;
  std::vector<EdgeStatistics> edges;
  /// Signs of a mistake in the source, in sentences.
  std::vector<std::string> warnings;
  /// Statistics that were not counted, and why, in sentences.
  std::vector<std::string> notes;

  friend bool operator==(const DatasetStatistics&,
                         const DatasetStatistics&) = default;
};

/// The statistics' file contents. REQUIRES: all numbers are finite.
std::string SerializeStatistics(const DatasetStatistics& statistics);

/// The inverse. DATA_LOSS for a failed checksum or malformed text;
/// FAILED_PRECONDITION for a newer major version. `path` is for messages.
absl::StatusOr<DatasetStatistics> ParseStatistics(absl::string_view text,
                                                  const std::string& path);

/// The statistics in a dataset's folder; none if it was made without them.
absl::StatusOr<std::optional<DatasetStatistics>> LoadStatistics(
    io::FileSystem& files, const std::string& folder);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_INSPECT_STATISTICS_H_
