#ifndef HEARTH_ENGINE_INGEST_GENERATE_GENERATE_OPTIONS_H_
#define HEARTH_ENGINE_INGEST_GENERATE_GENERATE_OPTIONS_H_

#include <cstdint>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "engine/store/array_type.h"

namespace hearth::ingest {

/// Edges by recursive division of the adjacency matrix (Chakrabarti, Zhan and
/// Faloutsos, "R-MAT", SDM 2004): rows are sources, columns destinations. What
/// remains of 1 is the probability of the lower right quarter.
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
  /// Number of communities, each with nodes of all classes; 0 = one a class.
  /// At most num_nodes / num_classes.
  int64_t num_communities = 0;
};

/// A graph to make up. Equal options give equal graphs.
struct GenerateOptions {
  /// How the edges are drawn.
  std::variant<RmatGraph, CommunityGraph> graph;
  /// 1 .. 2^35.
  int64_t num_nodes = 0;
  /// 1 .. 2^48. With `undirected` of both directions together, and even.
  int64_t num_edges = 0;
  /// Whether each edge's reverse is there, too: right behind it.
  bool undirected = false;
  /// Columns of the features, 1 .. 65,536.
  int64_t feature_dim = 128;
  /// float32, float16 or bfloat16.
  store::DType feature_dtype = store::DType::kFloat32;
  /// Number of classes, 1 .. 1,000,000, at most num_nodes.
  int64_t num_classes = 16;
  /// Shares of the nodes that are for training, validation and test: more than
  /// 0, and at most 1 together. Each must come to a node at least.
  double train_share = 0.1;
  double valid_share = 0.05;
  double test_share = 0.05;
  /// Seeds everything.
  uint64_t seed = 0;

  /// INVALID_ARGUMENT naming what is out of its bounds.
  absl::Status Validate() const;

  /// All of it, in words, for the manifest.
  std::string Describe() const;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_GENERATE_GENERATE_OPTIONS_H_
