#ifndef HEARTH_ENGINE_MODEL_OPERATORS_EDGES_H_
#define HEARTH_ENGINE_MODEL_OPERATORS_EDGES_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "engine/model/cpu/adjacency.h"
#include "engine/train/train_step.h"
#include "kernels/copy_rows.h"

namespace hearth::model {

/// Rows of a layer's sources: a matrix, or, for the first layer on the
/// processor, input rows where they lie. Immutable; a copy shares the rows.
/// Throws what LibTorch throws.
class SourceRows {
 public:
  /// [sources, columns] float32. Implicit: most layers have a matrix.
  SourceRows(at::Tensor matrix) : matrix_(std::move(matrix)) {}

  /// `count` rows that stay as long as the object and what is computed of it.
  SourceRows(const train::RowsInPlace& rows, int64_t count);

  /// The rows where they lie; null for a matrix.
  const kernels::AddressedRows* in_place() const {
    return placed_ ? &*placed_ : nullptr;
  }

  /// The matrix; rows in place are gathered anew by each call.
  at::Tensor Matrix() const { return placed_ ? First(count_) : matrix_; }

  /// The first `count` rows: of a matrix a view, else gathered.
  at::Tensor First(int64_t count) const;

  bool requires_grad() const { return !placed_ && matrix_.requires_grad(); }
  at::Device device() const {
    return placed_ ? at::Device(at::kCPU) : matrix_.device();
  }

 private:
  at::Tensor matrix_;
  std::optional<kernels::AddressedRows> placed_;
  int64_t count_ = 0;
};

/// An adjacency with the operations on its edges that layers and their
/// gradients need, on the processor or a device. One thread computes each
/// output row, in the order of its edges, so results do not depend on the
/// number of threads. All tensors are contiguous, on the device for which the
/// edges were made, and float32 unless stated otherwise. Single-owner. Throws
/// what LibTorch throws.
class Edges {
 public:
  virtual ~Edges() = default;
  Edges(const Edges&) = delete;
  Edges& operator=(const Edges&) = delete;

  int64_t num_sources() const { return num_sources_; }
  int64_t num_destinations() const { return num_destinations_; }
  int64_t num_edges() const { return num_edges_; }

  /// [num_destinations, width]: for each destination, the sum over its edges of
  /// the source's row of `x`, [num_sources, width], times the adjacency's
  /// weight.
  virtual at::Tensor Sum(const at::Tensor& x) const = 0;

  /// Sum for use in products only: of the products' FactorType().
  virtual at::Tensor SumForProducts(const at::Tensor& x) const = 0;

  /// The same of rows in place, with the same bits. REQUIRES: edges on the
  /// processor.
  virtual at::Tensor SumForProducts(const kernels::AddressedRows& rows) const;

  /// Sum weighted by `weights`, [num_edges, heads], instead: head h weighs the
  /// h-th of `heads` equal parts of a row.
  virtual at::Tensor Sum(const at::Tensor& x,
                         const at::Tensor& weights) const = 0;

  /// Gradient of Sum by x, [num_sources, width], for `gradient`,
  /// [num_destinations, width].
  virtual at::Tensor SumTransposed(const at::Tensor& gradient) = 0;
  virtual at::Tensor SumTransposed(const at::Tensor& gradient,
                                   const at::Tensor& weights) = 0;

  /// [num_edges, heads]: softmax, over each destination's edges, of GATv2's
  /// scores (dynamic_attention.h) of `sources`, [num_sources, heads *
  /// channels], and `destinations`, [num_destinations, heads * channels], with
  /// `vectors`, [1, heads, channels].
  virtual at::Tensor DynamicAttention(const at::Tensor& sources,
                                      const at::Tensor& destinations,
                                      const at::Tensor& vectors) const = 0;

  /// Gradients by the operands of DynamicAttention, with their shapes.
  struct DynamicGradient {
    at::Tensor sources;
    at::Tensor destinations;
    at::Tensor vectors;
  };
  /// Gradients where rows of `sources` were summed by `attention`, the result
  /// of DynamicAttention, and `gradient` is by the sums.
  virtual DynamicGradient DynamicAttentionGradient(
      const at::Tensor& sources, const at::Tensor& destinations,
      const at::Tensor& vectors, const at::Tensor& attention,
      const at::Tensor& gradient) = 0;

  /// [num_edges, heads]: softmax, over each destination's edges, of LeakyReLU
  /// (slope 0.2) of the source's plus the destination's score. `scores` are
  /// [num_sources, 2 * heads]: each node's scores as source, then as
  /// destination.
  at::Tensor Attention(const at::Tensor& scores) const;

  /// Gradient of Attention by `scores`, with their shape, where rows of `x`
  /// were summed by `attention` and `gradient` is by the sums.
  at::Tensor AttentionGradient(const at::Tensor& scores,
                               const at::Tensor& attention, const at::Tensor& x,
                               const at::Tensor& gradient);

  /// Scores where destinations are not sources: of sources, [num_sources,
  /// heads], and of destinations, [num_destinations, heads].
  struct ScorePair {
    at::Tensor sources;
    at::Tensor destinations;
  };
  /// Attention and its gradient for such scores; the gradient has their shapes.
  at::Tensor Attention(const ScorePair& scores) const;
  ScorePair AttentionGradient(const ScorePair& scores,
                              const at::Tensor& attention, const at::Tensor& x,
                              const at::Tensor& gradient);

 protected:
  /// Scores of several heads in memory: scores of row r begin at r * stride.
  template <typename T>
  struct ScoreRows {
    T* sources;
    T* destinations;
    int64_t stride;
  };

  explicit Edges(const Adjacency& adjacency)
      : num_sources_(adjacency.num_sources),
        num_destinations_(adjacency.num_destinations),
        num_edges_(adjacency.num_edges()) {}

  virtual at::Tensor AttentionOf(const ScoreRows<const float>& scores,
                                 int64_t heads) const = 0;
  /// `result` begins as zeros.
  virtual void AddAttentionGradient(const ScoreRows<const float>& scores,
                                    const at::Tensor& attention,
                                    const at::Tensor& x,
                                    const at::Tensor& gradient,
                                    const ScoreRows<float>& result) = 0;

 private:
  const int64_t num_sources_;
  const int64_t num_destinations_;
  const int64_t num_edges_;
};

/// Shared by a layer's forward and backward.
using EdgesPtr = std::shared_ptr<Edges>;

/// Edges for tensors on `device`: the processor, or a device whose
/// DeviceKernels are open.
EdgesPtr NewEdges(Adjacency adjacency, const at::Device& device);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_OPERATORS_EDGES_H_
