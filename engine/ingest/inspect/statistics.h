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

/// Statistics of a graph that its import collects, for display and for
/// warnings. Their file lies beside the manifest and is no part of the
/// fingerprint.

namespace hearth::ingest {

/// Most classes and columns that are listed.
inline constexpr size_t kMaxListedStatistics = 1000;

/// Statistics of a feature matrix in stored form.
struct FeatureStatistics {
  /// Least finite value; this member and the next three are 0 without finite
  /// values.
  double min = 0;
  double max = 0;
  double mean = 0;
  double standard_deviation = 0;
  /// Number of NaN and infinite values.
  uint64_t num_non_finite = 0;
  /// Number of zeros.
  uint64_t num_zeros = 0;
  /// The first 1000 columns that have the same value in every row, ascending.
  std::vector<uint32_t> constant_columns;
  /// Number of rows of zeros only.
  uint64_t num_zero_rows = 0;

  friend bool operator==(const FeatureStatistics&,
                         const FeatureStatistics&) = default;
};

/// Statistics of the nodes of one type.
struct NodeStatistics {
  std::string type;
  /// Number of nodes without any edge; nullopt if the memory limit did not
  /// allow counting them.
  std::optional<uint64_t> num_isolated;
  /// Number of nodes without a label.
  uint64_t num_unlabeled = 0;
  /// Number of nodes of each class, for the first 1000 classes. Empty without
  /// labels.
  std::vector<uint64_t> class_counts;
  /// nullopt without features.
  std::optional<FeatureStatistics> features;

  friend bool operator==(const NodeStatistics&,
                         const NodeStatistics&) = default;
};

/// Statistics of the edges of one type.
struct EdgeStatistics {
  std::string type;
  /// In-degrees of the destinations: mean, median, 99th percentile and maximum.
  double mean_in_degree = 0;
  uint64_t median_in_degree = 0;
  uint64_t percentile_99_in_degree = 0;
  uint64_t max_in_degree = 0;
  /// Number of destinations without an edge.
  uint64_t num_without_in_edges = 0;
  /// Number of sources without an edge; nullopt as num_isolated.
  std::optional<uint64_t> num_without_out_edges;
  /// Number of edges from a node to itself; 0 between two types.
  uint64_t num_self_loops = 0;
  /// Share of edges with equal classes among edges between labeled nodes;
  /// nullopt without such edges, between two types, and as num_isolated.
  std::optional<double> homophily;

  friend bool operator==(const EdgeStatistics&,
                         const EdgeStatistics&) = default;
};

/// All statistics of a dataset.
struct DatasetStatistics {
  /// Files of a newer major version are refused, of a newer minor version read.
  static constexpr int kMajorVersion = 1;
  static constexpr int kMinorVersion = 0;
  static constexpr char kFileName[] = "statistics.json";

  /// Statistics by type, in the order of the manifest.
  std::vector<NodeStatistics> nodes;
  std::vector<EdgeStatistics> edges;
  /// Signs of a mistake in the source, in sentences.
  std::vector<std::string> warnings;
  /// Statistics that were not computed, and why, in sentences.
  std::vector<std::string> notes;

  friend bool operator==(const DatasetStatistics&,
                         const DatasetStatistics&) = default;
};

/// Contents of the statistics' file. REQUIRES: all numbers are finite.
std::string SerializeStatistics(const DatasetStatistics& statistics);

/// Inverse of SerializeStatistics. DATA_LOSS for a wrong checksum or malformed
/// text; FAILED_PRECONDITION for a newer major version. `path` is for messages.
absl::StatusOr<DatasetStatistics> ParseStatistics(absl::string_view text,
                                                  const std::string& path);

/// Reads the statistics in a dataset's folder; nullopt if the dataset was made
/// without them.
absl::StatusOr<std::optional<DatasetStatistics>> LoadStatistics(
    io::FileSystem& files, const std::string& folder);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_INSPECT_STATISTICS_H_
