#ifndef HEARTH_ENGINE_MODEL_CPU_ADJACENCY_H_
#define HEARTH_ENGINE_MODEL_CPU_ADJACENCY_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/graph.h"
#include "engine/store/topology.h"

/// Edges of a sampled block, with the weights and self loops of each model.

namespace hearth::model {

/// Edges along which a layer passes messages, in CSC over positions, made from
/// a sampled block by one of the functions below, which differ in self loops
/// and weights. Immutable once made; thread-safe.
struct Adjacency {
  int64_t num_sources = 0;
  int64_t num_destinations = 0;
  /// [num_destinations + 1] ascending from 0.
  std::vector<int64_t> indptr;
  /// [num_edges] positions of sources.
  std::vector<int32_t> indices;
  /// [num_edges] weights; empty where the model computes weights itself.
  std::vector<float> weights;

  int64_t num_edges() const { return static_cast<int64_t>(indices.size()); }
};

/// Edges of the mean over sampled neighbors, by the block's weights if it has
/// some (0 without neighbors): GraphSAGE.
Adjacency MeanAdjacency(const sample::Block& block);

/// Weights of a mean, for edges in the lists that `indptr` bounds: 1 / length
/// of the list.
std::vector<float> MeanWeights(absl::Span<const int64_t> indptr);

/// In-degrees of sources in the whole graph, for SymmetricAdjacency.
struct SourceDegrees {
  /// In-degree of each source, self loops included, [>= num_sources].
  absl::Span<const int64_t> in_degrees;
  /// The sources, [>= num_sources], and the number of self loops of each node;
  /// null: no node has any.
  absl::Span<const store::NodeId> nodes = {};
  const store::SelfLoops* self_loops = nullptr;

  /// In-degree of a source, without its self loops.
  int64_t WithoutLoops(int64_t source) const {
    return in_degrees[source] -
           (self_loops == nullptr ? 0 : self_loops->Of(nodes[source]));
  }
};

/// Symmetric normalization over the whole graph with one self loop at each node
/// (Kipf and Welling, 2017, equation 2), which replaces the node's own self
/// loops, as in PyG's gcn_norm: 1 / sqrt((d_u + 1) (d_v + 1)) with in-degrees d
/// without self loops. Where k of D in-neighbors were sampled, their terms are
/// multiplied by D / k, or, where the block has weights, by D times their
/// weight, so that the sum is an unbiased estimate.
Adjacency SymmetricAdjacency(const sample::Block& block,
                             const SourceDegrees& degrees);

/// Edges of the sum over sampled neighbors plus the node itself: GIN.
Adjacency SumAdjacency(const sample::Block& block);

/// Edges from sampled neighbors, then from the node itself exactly once;
/// without weights: graph attention.
Adjacency SelfLoopAdjacency(const sample::Block& block);

/// An adjacency by source: row s lists the destinations that s feeds,
/// ascending, so that gradients are gathered without write conflicts.
struct TransposedAdjacency {
  /// [num_sources + 1] ascending from 0.
  std::vector<int64_t> indptr;
  /// [num_edges] positions of destinations.
  std::vector<int32_t> indices;
  /// [num_edges] index of the edge in the adjacency.
  std::vector<int64_t> edges;
};

TransposedAdjacency Transpose(const Adjacency& adjacency);

/// Splits rows 0 .. indptr.size() - 2 into `parts` ranges with about equal sums
/// of edges and rows; range i is [result[i], result[i + 1]). REQUIRES: parts >
/// 0.
std::vector<int64_t> BalancedRanges(absl::Span<const int64_t> indptr,
                                    int64_t parts);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_CPU_ADJACENCY_H_
