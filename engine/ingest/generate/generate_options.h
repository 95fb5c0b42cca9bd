#ifndef HEARTH_ENGINE_INGEST_GENERATE_GENERATE_OPTIONS_H_
#define HEARTH_ENGINE_INGEST_GENERATE_GENERATE_OPTIONS_H_

#include <cstdint>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "engine/store/array_type.h"

namespace hearth::ingest {

/// Edges by recursive division of the adjacency matrix (Chakrabarti, Zhan and
/// Faloutsos, "R-MAT", SDM 2004); rows are sources, columns destinations. The
/// lower right quarter has the remaining probability, 1 - a - b - c.
struct RmatGraph {
  /// Probability of the upper left quarter.
  double a = 0.57;
  /// Probability of the upper right quarter.
  double b = 0.19;
  /// Probability of the lower left quarter.
  double c = 0.19;
};

/// Communities, and degrees by a power law.
struct CommunityGraph {
  /// Share of the edges that join nodes of one community, in [0, 1].
  double inside = 0.8;
  /// Exponent of the power law, in [2.1, 10]. The nearer to 2, the heavier
  /// are the heaviest nodes.
  double exponent = 2.5;
  /// Number of communities, each with nodes of all classes; 0 = one per class.
  /// At most num_nodes / num_classes.
  int64_t num_communities = 0;
};

/// Options of a generated graph. Equal options give equal graphs.
struct GenerateOptions {
  /// Model that draws the edges.
  std::variant<RmatGraph, CommunityGraph> graph;
  /// Number of nodes, 1 .. 2^35.
  int64_t num_nodes = 0;
  /// Number of edges, 1 .. 2^48. With `undirected` it counts both directions
  /// and is even.
  int64_t num_edges = 0;
  /// Adds the reverse of each edge, right after it.
  bool undirected = false;
  /// Number of columns of the features, 1 .. 65,536.
  int64_t feature_dim = 128;
  /// Element type of the features: float32, float16 or bfloat16.
  store::DType feature_dtype = store::DType::kFloat32;
  /// Number of classes, 1 .. 1,000,000, at most num_nodes.
  int64_t num_classes = 16;
  /// Shares of the nodes for training, validation and test. Each is more than 0
  /// and gives at least one node; their sum is at most 1.
  double train_share = 0.1;
  double valid_share = 0.05;
  double test_share = 0.05;
  /// Seed of all random numbers.
  uint64_t seed = 0;

  /// INVALID_ARGUMENT naming an option that is out of bounds.
  absl::Status Validate() const;

  /// All options, in words, for the manifest.
  std::string Describe() const;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_GENERATE_GENERATE_OPTIONS_H_
