#include "kernels/aggregate.h"

#include <algorithm>

// Highway compiles what lies between its BEFORE and AFTER macros once per
// instruction set, by including this file again.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/aggregate.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace hearth::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Source rows added in one pass over an output row: their loads overlap, and
// the output row is read and written once for all of them.
constexpr int64_t kRowsPerPass = 4;
// Edges ahead of its use at which a source row is prefetched, across the ends
// of output rows, since many rows have few edges.
constexpr int64_t kEdgesAhead = 8;
// Bytes of a source row that are prefetched; the processor's own prefetcher
// follows from there.
constexpr int64_t kPrefetchBytes = 512;

// out[c] += weights[0] * rows[0][c] + weights[1] * rows[1][c] + ..., added in
// that order, for as many columns from `column` on as fill vectors of D; with
// kFirst, out[c] counts as 0. Returns the first column not done. Unrolled by
// hand: the compiler would loop over the rows within each vector.
template <int kRows, bool kFirst, class D>
HWY_INLINE int64_t AddVectors(D d, const float* const* rows,
                              const float* weights, int64_t column,
                              int64_t width, float* HWY_RESTRICT out) {
  static_assert(kRows >= 1 && kRows <= kRowsPerPass);
  constexpr int kLast = kRows - 1;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto weight0 = hn::Set(d, weights[0]);
  const auto weight1 = hn::Set(d, weights[std::min(1, kLast)]);
  const auto weight2 = hn::Set(d, weights[std::min(2, kLast)]);
  const auto weight3 = hn::Set(d, weights[kLast]);
  const float* HWY_RESTRICT row0 = rows[0];
  const float* HWY_RESTRICT row1 = rows[std::min(1, kLast)];
  const float* HWY_RESTRICT row2 = rows[std::min(2, kLast)];
  const float* HWY_RESTRICT row3 = rows[kLast];
  for (; column + lanes <= width; column += lanes) {
    auto sum = kFirst ? hn::Zero(d) : hn::LoadU(d, out + column);
    sum = hn::MulAdd(weight0, hn::LoadU(d, row0 + column), sum);
    if constexpr (kRows > 1) {
      sum = hn::MulAdd(weight1, hn::LoadU(d, row1 + column), sum);
    }
    if constexpr (kRows > 2) {
      sum = hn::MulAdd(weight2, hn::LoadU(d, row2 + column), sum);
    }
    if constexpr (kRows > 3) {
      sum = hn::MulAdd(weight3, hn::LoadU(d, row3 + column), sum);
    }
    hn::StoreU(sum, d, out + column);
  }
  return column;
}

// Adds `width` columns of kRows rows: in the widest vectors, then in vectors of
// four, since heads are often narrow, then one by one.
template <int kRows, bool kFirst>
HWY_INLINE void AddGroup(const float* const* rows, const float* weights,
                         int64_t width, float* out) {
  const hn::ScalableTag<float> widest;
  const hn::CappedTag<float, 4> four;
  const hn::CappedTag<float, 1> one;
  int64_t column =
      AddVectors<kRows, kFirst>(widest, rows, weights, 0, width, out);
  column = AddVectors<kRows, kFirst>(four, rows, weights, column, width, out);
  AddVectors<kRows, kFirst>(one, rows, weights, column, width, out);
}

HWY_INLINE void PrefetchRow(const float* row, int64_t width) {
  const int64_t bytes =
      std::min<int64_t>(width * sizeof(float), kPrefetchBytes);
  for (int64_t offset = 0; offset < bytes; offset += 64) {
    hwy::Prefetch(reinterpret_cast<const char*>(row) + offset);
  }
}

// Index of the weights [heads] of the edge at a position of the lists: the
// position itself, or lists.edges of it. Two types, because the compiler turns
// a choice per edge into masked loads, which are extremely slow through a null
// pointer.
struct OwnPlace {
  const float* operator()(int64_t position) const {
    return weights + position * heads;
  }
  const float* weights;
  int64_t heads;
};

struct MappedPlace {
  const float* operator()(int64_t position) const {
    return weights + edges[position] * heads;
  }
  const float* weights;
  int64_t heads;
  const int64_t* edges;
};

// Adds the kRows edges from `position` on to an output row, head by head.
template <int kRows, bool kFirst, class Place>
HWY_INLINE void AddEdges(const int32_t* indices, int64_t position,
                         const Place& place, const float* source,
                         HeadShape shape, float* out) {
  const int64_t width = shape.heads * shape.channels;
  const float* rows[kRows];
  const float* head_weights[kRows];
  float weights[kRows];
  for (int k = 0; k < kRows; ++k) {
    rows[k] = source + indices[position + k] * width;
    head_weights[k] = place(position + k);
  }
  for (int64_t head = 0; head < shape.heads; ++head) {
    for (int k = 0; k < kRows; ++k) weights[k] = head_weights[k][head];
    AddGroup<kRows, kFirst>(rows, weights, shape.channels, out);
    for (int k = 0; k < kRows; ++k) rows[k] += shape.channels;
    out += shape.channels;
  }
}

// AddEdges for `count` edges, at most kRowsPerPass.
template <bool kFirst, class Place>
HWY_INLINE void AddSomeEdges(const int32_t* indices, int64_t position,
                             int64_t count, const Place& place,
                             const float* source, HeadShape shape, float* out) {
  switch (count) {
    case 1:
      return AddEdges<1, kFirst>(indices, position, place, source, shape, out);
    case 2:
      return AddEdges<2, kFirst>(indices, position, place, source, shape, out);
    case 3:
      return AddEdges<3, kFirst>(indices, position, place, source, shape, out);
    default:
      return AddEdges<4, kFirst>(indices, position, place, source, shape, out);
  }
}

template <class Place>
HWY_INLINE void SumRows(const EdgeLists& lists, RowRange rows,
                        const Place& place, const float* source,
                        HeadShape shape, float* out) {
  const int64_t width = shape.heads * shape.channels;
  const int64_t last = lists.indptr[rows.end];
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    float* sum = out + row * width;
    const int64_t first = lists.indptr[row];
    const int64_t end = lists.indptr[row + 1];
    if (first == end) std::fill_n(sum, width, 0.0f);
    for (int64_t position = first; position < end; position += kRowsPerPass) {
      const int64_t count = std::min(kRowsPerPass, end - position);
      const int64_t ahead = std::min(position + kEdgesAhead + count, last);
      for (int64_t next = position + kEdgesAhead; next < ahead; ++next) {
        PrefetchRow(source + lists.indices[next] * width, width);
      }
      if (position == first) {
        AddSomeEdges<true>(lists.indices, position, count, place, source, shape,
                           sum);
      } else {
        AddSomeEdges<false>(lists.indices, position, count, place, source,
                            shape, sum);
      }
    }
  }
}

void WeightedSum(const EdgeLists& lists, RowRange rows, const float* weights,
                 const float* source, HeadShape shape, float* out) {
  if (lists.edges == nullptr) {
    SumRows(lists, rows, OwnPlace{weights, shape.heads}, source, shape, out);
  } else {
    SumRows(lists, rows, MappedPlace{weights, shape.heads, lists.edges}, source,
            shape, out);
  }
}

HWY_INLINE float Dot(const float* a, const float* b, int64_t width) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  // Two chains of additions, because each addition waits for the one before it
  // in its chain.
  auto sum0 = hn::Zero(d);
  auto sum1 = hn::Zero(d);
  int64_t column = 0;
  for (; column + 2 * lanes <= width; column += 2 * lanes) {
    sum0 = hn::MulAdd(hn::LoadU(d, a + column), hn::LoadU(d, b + column), sum0);
    sum1 = hn::MulAdd(hn::LoadU(d, a + column + lanes),
                      hn::LoadU(d, b + column + lanes), sum1);
  }
  for (; column + lanes <= width; column += lanes) {
    sum0 = hn::MulAdd(hn::LoadU(d, a + column), hn::LoadU(d, b + column), sum0);
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)));
  const hn::CappedTag<float, 4> four;
  const auto few = static_cast<int64_t>(hn::Lanes(four));
  auto rest = hn::Zero(four);
  for (; column + few <= width; column += few) {
    rest = hn::MulAdd(hn::LoadU(four, a + column), hn::LoadU(four, b + column),
                      rest);
  }
  sum += hn::GetLane(hn::SumOfLanes(four, rest));
  for (; column < width; ++column) sum += a[column] * b[column];
  return sum;
}

void Dots(const EdgeLists& lists, RowRange rows, const float* destination,
          const float* source, HeadShape shape, float* out) {
  const int64_t width = shape.heads * shape.channels;
  const int64_t last = lists.indptr[rows.end];
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const float* own = destination + row * width;
    const int64_t end = lists.indptr[row + 1];
    for (int64_t position = lists.indptr[row]; position < end; ++position) {
      if (position + kEdgesAhead < last) {
        PrefetchRow(source + lists.indices[position + kEdgesAhead] * width,
                    width);
      }
      const float* other = source + lists.indices[position] * width;
      const int64_t edge =
          lists.edges == nullptr ? position : lists.edges[position];
      for (int64_t head = 0; head < shape.heads; ++head) {
        out[edge * shape.heads + head] =
            Dot(own + head * shape.channels, other + head * shape.channels,
                shape.channels);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace hearth::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hearth::kernels {

HWY_EXPORT(WeightedSum);
HWY_EXPORT(Dots);

void WeightedSumRows(const EdgeLists& lists, RowRange rows,
                     const float* weights, const float* source, HeadShape shape,
                     float* out) {
  HWY_DYNAMIC_DISPATCH(WeightedSum)
  (lists, rows, weights, source, shape, out);
}

void EdgeDots(const EdgeLists& lists, RowRange rows, const float* destination,
              const float* source, HeadShape shape, float* out) {
  HWY_DYNAMIC_DISPATCH(Dots)(lists, rows, destination, source, shape, out);
}

void Transpose(const EdgeLists& lists, int64_t num_destinations,
               int64_t num_sources, const TransposedArrays& transposed) {
  // A counting sort by source: counts, their prefix sums as places to write
  // to, then a shift by one that turns those places into row starts.
  const int64_t num_edges = lists.indptr[num_destinations];
  std::fill_n(transposed.indptr, num_sources + 1, int64_t{0});
  int64_t* next = transposed.indptr;
  for (int64_t edge = 0; edge < num_edges; ++edge) ++next[lists.indices[edge]];
  int64_t start = 0;
  for (int64_t source = 0; source <= num_sources; ++source) {
    const int64_t count = next[source];
    next[source] = start;
    start += count;
  }
  for (int64_t row = 0; row < num_destinations; ++row) {
    for (int64_t edge = lists.indptr[row]; edge < lists.indptr[row + 1];
         ++edge) {
      const int64_t place = next[lists.indices[edge]]++;
      transposed.indices[place] = static_cast<int32_t>(row);
      transposed.edges[place] = edge;
    }
  }
  // Now next[s] is the end of source s, which is the start of s + 1.
  std::copy_backward(next, next + num_sources, next + num_sources + 1);
  next[0] = 0;
}

}  // namespace hearth::kernels
#endif  // HWY_ONCE
