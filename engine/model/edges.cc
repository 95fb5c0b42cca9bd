#include "engine/model/edges.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/aggregate.h"

namespace hearth::model {
namespace {

// PyG's default.
constexpr float kNegativeSlope = 0.2f;

kernels::EdgeLists Lists(const Adjacency& adjacency) {
  return {.indptr = adjacency.indptr.data(),
          .indices = adjacency.indices.data()};
}

kernels::EdgeLists Lists(const TransposedAdjacency& transposed) {
  return {.indptr = transposed.indptr.data(),
          .indices = transposed.indices.data(),
          .edges = transposed.edges.data()};
}

// Calls `function(range)` for ranges of rows that together are all rows, on
// this thread's team.
template <typename F>
void ForRows(absl::Span<const int64_t> indptr, const F& function) {
  const int64_t parts = at::get_num_threads();
  const std::vector<int64_t> bounds = BalancedRanges(indptr, parts);
  at::parallel_for(0, parts, /*grain_size=*/1, [&](int64_t begin, int64_t end) {
    function(kernels::RowRange{bounds[begin], bounds[end]});
  });
}

// kernels::WeightedSumRows for all rows of `lists`.
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

// For one group of scores: the softmax of LeakyReLU(source + destination) over
// the edges of row `row`.
void AttendRow(const Adjacency& adjacency, int64_t row, const float* scores,
               int64_t heads, float* attention) {
  const int64_t first = adjacency.indptr[row];
  const int64_t end = adjacency.indptr[row + 1];
  for (int64_t head = 0; head < heads; ++head) {
    const float own = scores[(2 * row + 1) * heads + head];
    float highest = -std::numeric_limits<float>::infinity();
    for (int64_t edge = first; edge < end; ++edge) {
      const int64_t source = adjacency.indices[edge];
      const float sum = scores[2 * source * heads + head] + own;
      const float score = sum > 0 ? sum : kNegativeSlope * sum;
      attention[edge * heads + head] = score;
      highest = std::max(highest, score);
    }
    float total = 0;
    for (int64_t edge = first; edge < end; ++edge) {
      float& value = attention[edge * heads + head];
      value = std::exp(value - highest);
      total += value;
    }
    for (int64_t edge = first; edge < end; ++edge) {
      attention[edge * heads + head] /= total;
    }
  }
}

// Turns the gradients by attention of one row's edges into those by the sum of
// scores, in place, and adds the latter up in `own`, [heads].
void AttendRowGradient(const Adjacency& adjacency, int64_t row,
                       const float* scores, int64_t heads,
                       const float* attention, float* gradient, float* own) {
  const int64_t first = adjacency.indptr[row];
  const int64_t end = adjacency.indptr[row + 1];
  for (int64_t head = 0; head < heads; ++head) {
    float mean = 0;
    for (int64_t edge = first; edge < end; ++edge) {
      mean += attention[edge * heads + head] * gradient[edge * heads + head];
    }
    const float destination = scores[(2 * row + 1) * heads + head];
    for (int64_t edge = first; edge < end; ++edge) {
      float& value = gradient[edge * heads + head];
      value = attention[edge * heads + head] * (value - mean);
      const int64_t source = adjacency.indices[edge];
      if (scores[2 * source * heads + head] + destination <= 0) {
        value *= kNegativeSlope;
      }
      own[head] += value;
    }
  }
}

}  // namespace

const TransposedAdjacency& Edges::transposed() {
  if (!transposed_) transposed_ = Transpose(adjacency_);
  return *transposed_;
}

at::Tensor Edges::Sum(const at::Tensor& x) const {
  return WeightedSum(Lists(adjacency_), adjacency_.indptr,
                     adjacency_.weights.data(), /*heads=*/1, x);
}

at::Tensor Edges::Sum(const at::Tensor& x, const at::Tensor& weights) const {
  return WeightedSum(Lists(adjacency_), adjacency_.indptr,
                     weights.const_data_ptr<float>(), weights.size(1), x);
}

at::Tensor Edges::SumTransposed(const at::Tensor& gradient) {
  return WeightedSum(Lists(transposed()), transposed().indptr,
                     adjacency_.weights.data(), /*heads=*/1, gradient);
}

at::Tensor Edges::SumTransposed(const at::Tensor& gradient,
                                const at::Tensor& weights) {
  return WeightedSum(Lists(transposed()), transposed().indptr,
                     weights.const_data_ptr<float>(), weights.size(1),
                     gradient);
}

at::Tensor Edges::Attention(const at::Tensor& scores) const {
  const int64_t heads = scores.size(1) / 2;
  at::Tensor result = at::empty({num_edges(), heads}, scores.options());
  const auto* given = scores.const_data_ptr<float>();
  auto* attention = result.mutable_data_ptr<float>();
  ForRows(adjacency_.indptr, [&](kernels::RowRange rows) {
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      AttendRow(adjacency_, row, given, heads, attention);
    }
  });
  return result;
}

at::Tensor Edges::AttentionGradient(const at::Tensor& scores,
                                    const at::Tensor& attention,
                                    const at::Tensor& x,
                                    const at::Tensor& gradient) {
  const int64_t heads = attention.size(1);
  const kernels::HeadShape shape{heads, x.size(1) / heads};
  at::Tensor by_edge = at::empty_like(attention);
  at::Tensor result = at::zeros(scores.sizes(), scores.options());
  auto* edge_gradient = by_edge.mutable_data_ptr<float>();
  auto* out = result.mutable_data_ptr<float>();
  ForRows(adjacency_.indptr, [&](kernels::RowRange rows) {
    kernels::EdgeDots(Lists(adjacency_), rows, gradient.const_data_ptr<float>(),
                      x.const_data_ptr<float>(), shape, edge_gradient);
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      AttendRowGradient(adjacency_, row, scores.const_data_ptr<float>(), heads,
                        attention.const_data_ptr<float>(), edge_gradient,
                        out + (2 * row + 1) * heads);
    }
  });
  ForRows(transposed().indptr, [&](kernels::RowRange rows) {
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      for (int64_t i = transposed_->indptr[row];
           i < transposed_->indptr[row + 1]; ++i) {
        const float* edge = edge_gradient + transposed_->edges[i] * heads;
        for (int64_t head = 0; head < heads; ++head) {
          out[2 * row * heads + head] += edge[head];
        }
      }
    }
  });
  return result;
}

}  // namespace hearth::model
