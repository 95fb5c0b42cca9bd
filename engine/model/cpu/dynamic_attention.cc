#include "engine/model/cpu/dynamic_attention.h"

#include <algorithm>

// Highway compiles the code between its BEFORE and AFTER macros once per
// instruction set, by including this file again.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/model/cpu/dynamic_attention.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace hearth::model {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Operands of one head of an edge.
struct Edge {
  const float* source;
  const float* destination;
  const float* attention;
  int64_t channels;
};

// Sum of source and destination, before LeakyReLU.
template <class D>
HWY_INLINE hn::Vec<D> Sum(D d, const Edge& edge, int64_t column) {
  return hn::Add(hn::LoadU(d, edge.source + column),
                 hn::LoadU(d, edge.destination + column));
}

template <class D>
HWY_INLINE hn::Vec<D> LeakyRelu(D d, hn::Vec<D> x) {
  return hn::Max(x, hn::Mul(x, hn::Set(d, kNegativeSlope)));
}

// out[column ...] += value.
template <class D>
HWY_INLINE void AddTo(D d, hn::Vec<D> value, int64_t column, float* out) {
  hn::StoreU(hn::Add(hn::LoadU(d, out + column), value), d, out + column);
}

// Each of the next three functions continues from `column` in vectors of D and
// returns the first column that is not done.

template <class D>
HWY_INLINE int64_t AddScore(D d, const Edge& edge, int64_t column,
                            float& score) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sum = hn::Zero(d);
  for (; column + lanes <= edge.channels; column += lanes) {
    sum = hn::MulAdd(hn::LoadU(d, edge.attention + column),
                     LeakyRelu(d, Sum(d, edge, column)), sum);
  }
  score += hn::GetLane(hn::SumOfLanes(d, sum));
  return column;
}

// Gradient by source, equal to the gradient by destination.
template <class D>
HWY_INLINE int64_t AddRowGradient(D d, const Edge& edge, float gradient,
                                  int64_t column, float* by_row) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto rising = hn::Set(d, gradient);
  const auto falling = hn::Set(d, gradient * kNegativeSlope);
  for (; column + lanes <= edge.channels; column += lanes) {
    const auto slope = hn::IfThenElse(hn::Gt(Sum(d, edge, column), hn::Zero(d)),
                                      rising, falling);
    AddTo(d, hn::Mul(slope, hn::LoadU(d, edge.attention + column)), column,
          by_row);
  }
  return column;
}

template <class D>
HWY_INLINE int64_t AddAttentionGradient(D d, const Edge& edge, float gradient,
                                        int64_t column, float* by_attention) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, gradient);
  for (; column + lanes <= edge.channels; column += lanes) {
    AddTo(d, hn::Mul(factor, LeakyRelu(d, Sum(d, edge, column))), column,
          by_attention);
  }
  return column;
}

// Calls `function(d, column)`, one of the functions above: with the widest
// vectors, then with vectors of four, as heads are often narrow, then with
// single floats.
template <class F>
HWY_INLINE void ForColumns(const F& function) {
  int64_t column = function(hn::ScalableTag<float>(), 0);
  column = function(hn::CappedTag<float, 4>(), column);
  function(hn::CappedTag<float, 1>(), column);
}

HWY_INLINE Edge HeadOf(const ScoredRows& rows, int64_t source,
                       int64_t destination, int64_t head) {
  const auto& [heads, channels] = rows.shape;
  const int64_t first = head * channels;
  return {
      .source = rows.sources + source * heads * channels + first,
      .destination = rows.destinations + destination * heads * channels + first,
      .attention = rows.attention + first,
      .channels = channels};
}

void Scores(const kernels::EdgeLists& lists, kernels::RowRange range,
            const ScoredRows& rows, float* scores) {
  const int64_t heads = rows.shape.heads;
  for (int64_t row = range.begin; row < range.end; ++row) {
    for (int64_t i = lists.indptr[row]; i < lists.indptr[row + 1]; ++i) {
      for (int64_t head = 0; head < heads; ++head) {
        const Edge edge = HeadOf(rows, lists.indices[i], row, head);
        float score = 0;
        ForColumns([&](auto d, int64_t column)
                       HWY_ATTR { return AddScore(d, edge, column, score); });
        scores[i * heads + head] = score;
      }
    }
  }
}

void ByDestination(const kernels::EdgeLists& lists, kernels::RowRange range,
                   const ScoredRows& rows, const float* score_gradient,
                   float* by_destination, float* by_attention) {
  const int64_t heads = rows.shape.heads;
  const int64_t width = heads * rows.shape.channels;
  for (float* const out : {by_destination, by_attention}) {
    std::fill(out + range.begin * width, out + range.end * width, 0.0f);
  }
  for (int64_t row = range.begin; row < range.end; ++row) {
    for (int64_t i = lists.indptr[row]; i < lists.indptr[row + 1]; ++i) {
      for (int64_t head = 0; head < heads; ++head) {
        const Edge edge = HeadOf(rows, lists.indices[i], row, head);
        const float gradient = score_gradient[i * heads + head];
        const int64_t own = row * width + head * edge.channels;
        ForColumns([&](auto d, int64_t column) HWY_ATTR {
          return AddRowGradient(d, edge, gradient, column,
                                by_destination + own);
        });
        ForColumns([&](auto d, int64_t column) HWY_ATTR {
          return AddAttentionGradient(d, edge, gradient, column,
                                      by_attention + own);
        });
      }
    }
  }
}

void BySource(const kernels::EdgeLists& transposed, kernels::RowRange range,
              const ScoredRows& rows, const float* score_gradient,
              float* by_source) {
  const int64_t heads = rows.shape.heads;
  const int64_t width = heads * rows.shape.channels;
  for (int64_t row = range.begin; row < range.end; ++row) {
    for (int64_t i = transposed.indptr[row]; i < transposed.indptr[row + 1];
         ++i) {
      for (int64_t head = 0; head < heads; ++head) {
        const Edge edge = HeadOf(rows, row, transposed.indices[i], head);
        const float gradient =
            score_gradient[transposed.edges[i] * heads + head];
        const int64_t own = row * width + head * edge.channels;
        ForColumns([&](auto d, int64_t column) HWY_ATTR {
          return AddRowGradient(d, edge, gradient, column, by_source + own);
        });
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace hearth::model
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hearth::model {

HWY_EXPORT(Scores);
HWY_EXPORT(ByDestination);
HWY_EXPORT(BySource);

void ScoreEdges(const kernels::EdgeLists& lists, kernels::RowRange range,
                const ScoredRows& rows, float* scores) {
  HWY_DYNAMIC_DISPATCH(Scores)(lists, range, rows, scores);
}

void ScoreGradientByDestination(const kernels::EdgeLists& lists,
                                kernels::RowRange range, const ScoredRows& rows,
                                const float* score_gradient,
                                float* by_destination, float* by_attention) {
  HWY_DYNAMIC_DISPATCH(ByDestination)
  (lists, range, rows, score_gradient, by_destination, by_attention);
}

void AddScoreGradientBySource(const kernels::EdgeLists& transposed,
                              kernels::RowRange range, const ScoredRows& rows,
                              const float* score_gradient, float* by_source) {
  HWY_DYNAMIC_DISPATCH(BySource)
  (transposed, range, rows, score_gradient, by_source);
}

}  // namespace hearth::model
#endif  // HWY_ONCE
