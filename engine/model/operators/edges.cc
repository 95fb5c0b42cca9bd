#include "engine/model/operators/edges.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/functional/function_ref.h"
#include "engine/model/cpu/dynamic_attention.h"
#include "engine/model/cpu/product_operands.h"
#include "engine/model/operators/device_operators.h"
#include "engine/model/operators/matrix_product.h"
#include "engine/store/array_type.h"
#include "kernels/aggregate.h"
#include "kernels/copy_rows.h"

namespace hearth::model {
namespace {

kernels::EdgeLists Lists(const Adjacency& adjacency) {
  return {.indptr = adjacency.indptr.data(),
          .indices = adjacency.indices.data()};
}

kernels::EdgeLists Lists(const TransposedAdjacency& transposed) {
  return {.indptr = transposed.indptr.data(),
          .indices = transposed.indices.data(),
          .edges = transposed.edges.data()};
}

// Calls `function(range)` for ranges that together cover all rows, in parallel.
template <typename F>
void ForRows(absl::Span<const int64_t> indptr, const F& function) {
  const int64_t parts = at::get_num_threads();
  const std::vector<int64_t> bounds = BalancedRanges(indptr, parts);
  at::parallel_for(0, parts, /*grain_size=*/1, [&](int64_t begin, int64_t end) {
    function(kernels::RowRange{bounds[begin], bounds[end]});
  });
}

kernels::ElementType ElementTypeOf(store::DType dtype) {
  switch (dtype) {
    case store::DType::kFloat16:
      return kernels::ElementType::kFloat16;
    case store::DType::kBFloat16:
      return kernels::ElementType::kBFloat16;
    case store::DType::kScaledInt8:
      return kernels::ElementType::kScaledInt8;
    default:
      return kernels::ElementType::kFloat32;
  }
}

// kernels::WeightedSumRows over all rows of `lists`.
at::Tensor WeightedSum(const kernels::EdgeLists& lists,
                       absl::Span<const int64_t> indptr, const float* weights,
                       int64_t heads, const at::Tensor& x) {
  const kernels::HeadShape shape{heads, x.size(1) / heads};
  at::Tensor result = at::empty(
      {static_cast<int64_t>(indptr.size()) - 1, x.size(1)}, x.options());
  const auto* source = x.const_data_ptr<float>();
  auto* out = result.mutable_data_ptr<float>();
  ForRows(indptr, [&](kernels::RowRange rows) {
    kernels::WeightedSumRows(lists, rows, weights, source, shape, out);
  });
  return result;
}

// Adds up the rows of the adjacency's sources for a range of rows of `lists`,
// [rows, width].
using SumRange = absl::FunctionRef<void(const kernels::EdgeLists& lists,
                                        kernels::RowRange rows, float* out)>;

// Sums along the adjacency, rounded to bfloat16 while they are in the caches.
at::Tensor RoundedSum(const Adjacency& adjacency, int64_t width, SumRange sum) {
  constexpr int64_t kRowsAtOnce = 32;
  at::Tensor result =
      at::empty({adjacency.num_destinations, width}, at::kBFloat16);
  auto* const rounded =
      reinterpret_cast<Bfloat16Bits*>(result.mutable_data_ptr<at::BFloat16>());
  ForRows(adjacency.indptr, [&](kernels::RowRange rows) {
    std::vector<float> sums(kRowsAtOnce * width);
    for (int64_t row = rows.begin; row < rows.end; row += kRowsAtOnce) {
      const int64_t count = std::min(kRowsAtOnce, rows.end - row);
      sum({.indptr = adjacency.indptr.data() + row,
           .indices = adjacency.indices.data()},
          {0, count}, sums.data());
      RoundRows({sums.data(), count, width, width}, width,
                rounded + row * width);
    }
  });
  return result;
}

// Replaces the scores of one row's edges, `values` [num_edges, heads], by their
// softmax.
void SoftmaxRow(const Adjacency& adjacency, int64_t row, int64_t heads,
                float* values) {
  const int64_t first = adjacency.indptr[row];
  const int64_t end = adjacency.indptr[row + 1];
  for (int64_t head = 0; head < heads; ++head) {
    float highest = -std::numeric_limits<float>::infinity();
    for (int64_t edge = first; edge < end; ++edge) {
      highest = std::max(highest, values[edge * heads + head]);
    }
    float total = 0;
    for (int64_t edge = first; edge < end; ++edge) {
      float& value = values[edge * heads + head];
      value = std::exp(value - highest);
      total += value;
    }
    for (int64_t edge = first; edge < end; ++edge) {
      values[edge * heads + head] /= total;
    }
  }
}

// Replaces the gradients by attention of one row's edges by the gradients by
// their scores.
void SoftmaxRowGradient(const Adjacency& adjacency, int64_t row, int64_t heads,
                        const float* attention, float* gradient) {
  const int64_t first = adjacency.indptr[row];
  const int64_t end = adjacency.indptr[row + 1];
  for (int64_t head = 0; head < heads; ++head) {
    float mean = 0;
    for (int64_t edge = first; edge < end; ++edge) {
      mean += attention[edge * heads + head] * gradient[edge * heads + head];
    }
    for (int64_t edge = first; edge < end; ++edge) {
      float& value = gradient[edge * heads + head];
      value = attention[edge * heads + head] * (value - mean);
    }
  }
}

// Computes LeakyReLU(source + destination) for one row's edges. Scores of
// sources are `stride` apart.
void ScoreRow(const Adjacency& adjacency, int64_t row, const float* sources,
              int64_t stride, const float* destination, int64_t heads,
              float* edge_scores) {
  for (int64_t edge = adjacency.indptr[row]; edge < adjacency.indptr[row + 1];
       ++edge) {
    const float* source = sources + stride * adjacency.indices[edge];
    for (int64_t head = 0; head < heads; ++head) {
      const float sum = source[head] + destination[head];
      edge_scores[edge * heads + head] = sum > 0 ? sum : kNegativeSlope * sum;
    }
  }
}

// Replaces the gradients by scores of one row's edges by the gradients by the
// sums of source and destination, and adds these up in `own`, [heads].
void ScoreRowGradient(const Adjacency& adjacency, int64_t row,
                      const float* sources, int64_t stride,
                      const float* destination, int64_t heads, float* gradient,
                      float* own) {
  for (int64_t edge = adjacency.indptr[row]; edge < adjacency.indptr[row + 1];
       ++edge) {
    const float* source = sources + stride * adjacency.indices[edge];
    for (int64_t head = 0; head < heads; ++head) {
      float& value = gradient[edge * heads + head];
      if (source[head] + destination[head] <= 0) value *= kNegativeSlope;
      own[head] += value;
    }
  }
}

ScoredRows Operands(const at::Tensor& sources, const at::Tensor& destinations,
                    const at::Tensor& vectors) {
  return {.shape = {.heads = vectors.size(1), .channels = vectors.size(2)},
          .sources = sources.const_data_ptr<float>(),
          .destinations = destinations.const_data_ptr<float>(),
          .attention = vectors.const_data_ptr<float>()};
}

class CpuEdges final : public Edges {
 public:
  explicit CpuEdges(Adjacency adjacency)
      : Edges(adjacency), adjacency_(std::move(adjacency)) {}

  at::Tensor Sum(const at::Tensor& x) const override;
  at::Tensor SumForProducts(const at::Tensor& x) const override;
  at::Tensor SumForProducts(const kernels::AddressedRows& rows) const override;
  at::Tensor Sum(const at::Tensor& x, const at::Tensor& weights) const override;
  at::Tensor SumTransposed(const at::Tensor& gradient) override;
  at::Tensor SumTransposed(const at::Tensor& gradient,
                           const at::Tensor& weights) override;
  at::Tensor DynamicAttention(const at::Tensor& sources,
                              const at::Tensor& destinations,
                              const at::Tensor& vectors) const override;
  DynamicGradient DynamicAttentionGradient(const at::Tensor& sources,
                                           const at::Tensor& destinations,
                                           const at::Tensor& vectors,
                                           const at::Tensor& attention,
                                           const at::Tensor& gradient) override;

 private:
  at::Tensor AttentionOf(const ScoreRows<const float>& scores,
                         int64_t heads) const override;
  void AddAttentionGradient(const ScoreRows<const float>& scores,
                            const at::Tensor& attention, const at::Tensor& x,
                            const at::Tensor& gradient,
                            const ScoreRows<float>& result) override;

  const TransposedAdjacency& transposed();

  const Adjacency adjacency_;
  std::optional<TransposedAdjacency> transposed_;
};

const TransposedAdjacency& CpuEdges::transposed() {
  if (!transposed_) transposed_ = Transpose(adjacency_);
  return *transposed_;
}

at::Tensor CpuEdges::Sum(const at::Tensor& x) const {
  return WeightedSum(Lists(adjacency_), adjacency_.indptr,
                     adjacency_.weights.data(), /*heads=*/1, x);
}

at::Tensor CpuEdges::SumForProducts(const at::Tensor& x) const {
  if (FactorType() != at::kBFloat16) return Sum(x);
  const kernels::HeadShape shape{.heads = 1, .channels = x.size(1)};
  const auto* source = x.const_data_ptr<float>();
  return RoundedSum(
      adjacency_, x.size(1),
      [&](const kernels::EdgeLists& lists, kernels::RowRange rows, float* out) {
        kernels::WeightedSumRows(lists, rows, adjacency_.weights.data(), source,
                                 shape, out);
      });
}

at::Tensor CpuEdges::SumForProducts(const kernels::AddressedRows& rows) const {
  const auto sum = [&](const kernels::EdgeLists& lists, kernels::RowRange range,
                       float* out) {
    kernels::WeightedSumRows(lists, range, adjacency_.weights.data(), rows,
                             out);
  };
  if (FactorType() == at::kBFloat16) {
    return RoundedSum(adjacency_, rows.dim, sum);
  }
  at::Tensor result = at::empty({num_destinations(), rows.dim}, at::kFloat);
  auto* const out = result.mutable_data_ptr<float>();
  ForRows(adjacency_.indptr,
          [&](kernels::RowRange range) { sum(Lists(adjacency_), range, out); });
  return result;
}

at::Tensor CpuEdges::Sum(const at::Tensor& x, const at::Tensor& weights) const {
  return WeightedSum(Lists(adjacency_), adjacency_.indptr,
                     weights.const_data_ptr<float>(), weights.size(1), x);
}

at::Tensor CpuEdges::SumTransposed(const at::Tensor& gradient) {
  return WeightedSum(Lists(transposed()), transposed().indptr,
                     adjacency_.weights.data(), /*heads=*/1, gradient);
}

at::Tensor CpuEdges::SumTransposed(const at::Tensor& gradient,
                                   const at::Tensor& weights) {
  return WeightedSum(Lists(transposed()), transposed().indptr,
                     weights.const_data_ptr<float>(), weights.size(1),
                     gradient);
}

at::Tensor CpuEdges::AttentionOf(const ScoreRows<const float>& scores,
                                 int64_t heads) const {
  at::Tensor result = at::empty({num_edges(), heads}, at::kFloat);
  auto* attention = result.mutable_data_ptr<float>();
  ForRows(adjacency_.indptr, [&](kernels::RowRange rows) {
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      ScoreRow(adjacency_, row, scores.sources, scores.stride,
               scores.destinations + row * scores.stride, heads, attention);
      SoftmaxRow(adjacency_, row, heads, attention);
    }
  });
  return result;
}

void CpuEdges::AddAttentionGradient(const ScoreRows<const float>& scores,
                                    const at::Tensor& attention,
                                    const at::Tensor& x,
                                    const at::Tensor& gradient,
                                    const ScoreRows<float>& result) {
  const int64_t heads = attention.size(1);
  const kernels::HeadShape shape{heads, x.size(1) / heads};
  at::Tensor by_edge = at::empty_like(attention);
  auto* edge_gradient = by_edge.mutable_data_ptr<float>();
  ForRows(adjacency_.indptr, [&](kernels::RowRange rows) {
    kernels::EdgeDots(Lists(adjacency_), rows, gradient.const_data_ptr<float>(),
                      x.const_data_ptr<float>(), shape, edge_gradient);
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      SoftmaxRowGradient(adjacency_, row, heads,
                         attention.const_data_ptr<float>(), edge_gradient);
      ScoreRowGradient(adjacency_, row, scores.sources, scores.stride,
                       scores.destinations + row * scores.stride, heads,
                       edge_gradient,
                       result.destinations + row * result.stride);
    }
  });
  ForRows(transposed().indptr, [&](kernels::RowRange rows) {
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      for (int64_t i = transposed_->indptr[row];
           i < transposed_->indptr[row + 1]; ++i) {
        const float* edge = edge_gradient + transposed_->edges[i] * heads;
        for (int64_t head = 0; head < heads; ++head) {
          result.sources[row * result.stride + head] += edge[head];
        }
      }
    }
  });
}

at::Tensor CpuEdges::DynamicAttention(const at::Tensor& sources,
                                      const at::Tensor& destinations,
                                      const at::Tensor& vectors) const {
  const ScoredRows rows = Operands(sources, destinations, vectors);
  const int64_t heads = rows.shape.heads;
  at::Tensor result = at::empty({num_edges(), heads}, sources.options());
  auto* attention = result.mutable_data_ptr<float>();
  ForRows(adjacency_.indptr, [&](kernels::RowRange range) {
    ScoreEdges(Lists(adjacency_), range, rows, attention);
    for (int64_t row = range.begin; row < range.end; ++row) {
      SoftmaxRow(adjacency_, row, heads, attention);
    }
  });
  return result;
}

Edges::DynamicGradient CpuEdges::DynamicAttentionGradient(
    const at::Tensor& sources, const at::Tensor& destinations,
    const at::Tensor& vectors, const at::Tensor& attention,
    const at::Tensor& gradient) {
  const ScoredRows rows = Operands(sources, destinations, vectors);
  at::Tensor by_edge = at::empty_like(attention);
  DynamicGradient result;
  result.sources = SumTransposed(gradient, attention);
  result.destinations = at::empty_like(destinations);
  // Contributions of all rows, summed below in an order independent of threads.
  at::Tensor by_vectors = at::empty_like(destinations);
  auto* edge_gradient = by_edge.mutable_data_ptr<float>();
  ForRows(adjacency_.indptr, [&](kernels::RowRange range) {
    kernels::EdgeDots(Lists(adjacency_), range,
                      gradient.const_data_ptr<float>(), rows.sources,
                      rows.shape, edge_gradient);
    for (int64_t row = range.begin; row < range.end; ++row) {
      SoftmaxRowGradient(adjacency_, row, rows.shape.heads,
                         attention.const_data_ptr<float>(), edge_gradient);
    }
    ScoreGradientByDestination(Lists(adjacency_), range, rows, edge_gradient,
                               result.destinations.mutable_data_ptr<float>(),
                               by_vectors.mutable_data_ptr<float>());
  });
  ForRows(transposed().indptr, [&](kernels::RowRange range) {
    AddScoreGradientBySource(Lists(*transposed_), range, rows, edge_gradient,
                             result.sources.mutable_data_ptr<float>());
  });
  result.vectors = ColumnSums(by_vectors).view(vectors.sizes());
  return result;
}

}  // namespace

SourceRows::SourceRows(const train::RowsInPlace& rows, int64_t count)
    : placed_({.slots = rows.slots,
               .landed = rows.landed,
               .num_slots = rows.num_slots,
               .type = ElementTypeOf(rows.format.dtype),
               .dim = rows.format.dim,
               .addresses = rows.addresses}),
      count_(count) {}

at::Tensor SourceRows::First(int64_t count) const {
  if (!placed_) return matrix_.narrow(0, 0, count);
  // Rows that make a thread worth while.
  constexpr int64_t kRowsPerThread = 256;
  at::Tensor result = at::empty({count, placed_->dim}, at::kFloat);
  auto* const out = result.mutable_data_ptr<float>();
  at::parallel_for(0, count, kRowsPerThread, [&](int64_t begin, int64_t end) {
    kernels::GatherRows(*placed_, begin, end - begin,
                        out + begin * placed_->dim);
  });
  return result;
}

at::Tensor Edges::SumForProducts(const kernels::AddressedRows& /*rows*/) const {
  TORCH_CHECK(false, "rows in place are summed on the processor alone");
}

at::Tensor Edges::Attention(const at::Tensor& scores) const {
  const int64_t heads = scores.size(1) / 2;
  const auto* rows = scores.const_data_ptr<float>();
  return AttentionOf({rows, rows + heads, 2 * heads}, heads);
}

at::Tensor Edges::AttentionGradient(const at::Tensor& scores,
                                    const at::Tensor& attention,
                                    const at::Tensor& x,
                                    const at::Tensor& gradient) {
  const int64_t heads = attention.size(1);
  at::Tensor result = at::zeros_like(scores);
  const auto* rows = scores.const_data_ptr<float>();
  auto* out = result.mutable_data_ptr<float>();
  AddAttentionGradient({rows, rows + heads, 2 * heads}, attention, x, gradient,
                       {out, out + heads, 2 * heads});
  return result;
}

at::Tensor Edges::Attention(const ScorePair& scores) const {
  const int64_t heads = scores.sources.size(1);
  return AttentionOf({scores.sources.const_data_ptr<float>(),
                      scores.destinations.const_data_ptr<float>(), heads},
                     heads);
}

Edges::ScorePair Edges::AttentionGradient(const ScorePair& scores,
                                          const at::Tensor& attention,
                                          const at::Tensor& x,
                                          const at::Tensor& gradient) {
  const int64_t heads = attention.size(1);
  ScorePair result = {at::zeros_like(scores.sources),
                      at::zeros_like(scores.destinations)};
  AddAttentionGradient({scores.sources.const_data_ptr<float>(),
                        scores.destinations.const_data_ptr<float>(), heads},
                       attention, x, gradient,
                       {result.sources.mutable_data_ptr<float>(),
                        result.destinations.mutable_data_ptr<float>(), heads});
  return result;
}

EdgesPtr NewEdges(Adjacency adjacency, const at::Device& device) {
  if (!device.is_cpu()) return NewDeviceEdges(std::move(adjacency), device);
  return std::make_shared<CpuEdges>(std::move(adjacency));
}

}  // namespace hearth::model
