#ifndef HEARTH_ENGINE_MODEL_EDGES_H_
#define HEARTH_ENGINE_MODEL_EDGES_H_

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>

#include "engine/model/adjacency.h"

namespace hearth::model {

/// An adjacency with the operations on its edges that layers and their
/// gradients consist of. Every output row is computed by one thread in the
/// order of its edges, so that the number of threads changes nothing. All
/// tensors are float32 where nothing else is said, contiguous, on the CPU.
/// Single-owner.
class Edges {
 public:
  explicit Edges(Adjacency adjacency) : adjacency_(std::move(adjacency)) {}

  int64_t num_sources() const { return adjacency_.num_sources; }
  int64_t num_destinations() const { return adjacency_.num_destinations; }
  int64_t num_edges() const { return adjacency_.num_edges(); }

  /// [num_destinations, width]: the sum over each destination's edges of the
  /// source's row of `x`, [num_sources, width], times the adjacency's weight.
  at::Tensor Sum(const at::Tensor& x) const;

  /// The same for products of matrices alone: of their FactorType().
  at::Tensor SumForProducts(const at::Tensor& x) const;

  /// As Sum with `weights`, [num_edges, heads]: head h weighs the h-th of
  /// `heads` equal parts of a row.
  at::Tensor Sum(const at::Tensor& x, const at::Tensor& weights) const;

  /// The gradient of Sum with respect to x: [num_sources, width], for
  /// `gradient`, [num_destinations, width].
  at::Tensor SumTransposed(const at::Tensor& gradient);
  at::Tensor SumTransposed(const at::Tensor& gradient,
                           const at::Tensor& weights);

  /// [num_edges, heads]: the softmax over each destination's edges of GATv2's
  /// scores (dynamic_attention.h) of `sources`, [num_sources, heads *
  /// channels], and `destinations`, [num_destinations, heads * channels], with
  /// the vectors `vectors`, [1, heads, channels].
  at::Tensor DynamicAttention(const at::Tensor& sources,
                              const at::Tensor& destinations,
                              const at::Tensor& vectors) const;

  /// Gradients by the operands of DynamicAttention, each of its shape.
  struct DynamicGradient {
    at::Tensor sources;
    at::Tensor destinations;
    at::Tensor vectors;
  };
  /// They are those of the sums of rows of `sources` by `attention`, the result
  /// of DynamicAttention, if the gradient of the sums is `gradient`.
  DynamicGradient DynamicAttentionGradient(const at::Tensor& sources,
                                           const at::Tensor& destinations,
                                           const at::Tensor& vectors,
                                           const at::Tensor& attention,
                                           const at::Tensor& gradient);

  /// [num_edges, heads]: LeakyReLU (slope 0.2) of the source's plus the
  /// destination's score, then the softmax over each destination's edges.
  /// `scores` is [num_sources, 2 * heads]: as source, then as destination.
  at::Tensor Attention(const at::Tensor& scores) const;

  /// The gradient of Attention with respect to `scores`, of their shape, if
  /// rows of `x` were summed by that attention and the sums' gradient is
  /// `gradient`.
  at::Tensor AttentionGradient(const at::Tensor& scores,
                               const at::Tensor& attention, const at::Tensor& x,
                               const at::Tensor& gradient);

  /// Scores where destinations are no sources: those of sources, [num_sources,
  /// heads], and of destinations, [num_destinations, heads].
  struct ScorePair {
    at::Tensor sources;
    at::Tensor destinations;
  };
  /// The same for such scores; the gradient is of their shapes.
  at::Tensor Attention(const ScorePair& scores) const;
  ScorePair AttentionGradient(const ScorePair& scores,
                              const at::Tensor& attention, const at::Tensor& x,
                              const at::Tensor& gradient);

 private:
  // Scores as they lie: those of row r from r * stride on.
  template <typename T>
  struct ScoreRows {
    T* sources;
    T* destinations;
    int64_t stride;
  };

  at::Tensor AttentionOf(const ScoreRows<const float>& scores,
                         int64_t heads) const;
  // Adds to `result`.
  void AddAttentionGradient(const ScoreRows<const float>& scores,
                            const at::Tensor& attention, const at::Tensor& x,
                            const at::Tensor& gradient,
                            const ScoreRows<float>& result);

  const TransposedAdjacency& transposed();

  Adjacency adjacency_;
  std::optional<TransposedAdjacency> transposed_;
};

/// Shared by a layer's forward and backward.
using EdgesPtr = std::shared_ptr<Edges>;

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_EDGES_H_
