#include "kernels/aggregate.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

// Highway compiles what lies between its BEFORE and AFTER macros once per
// instruction set, by including this file again.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/aggregate.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, as Highway requires.
#include "hwy/highway.h"
#include "kernels/widen_row-inl.h"

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

// The source row of the edge at a position of the lists: in one matrix, or
// where it lies (RowsAt), of float32.
struct DenseSource {
  const float* operator()(int64_t position) const {
    return source + indices[position] * width;
  }
  const int32_t* indices;
  const float* source;
  int64_t width;
};

struct PlacedSource {
  const float* operator()(int64_t position) const {
    return reinterpret_cast<const float*>(rows(indices[position]));
  }
  const int32_t* indices;
  RowsAt rows;
};

// Adds the kRows edges from `position` on to an output row, head by head.
template <int kRows, bool kFirst, class Place, class Source>
HWY_INLINE void AddEdges(int64_t position, const Place& place,
                         const Source& source, HeadShape shape, float* out) {
  const float* rows[kRows];
  const float* head_weights[kRows];
  float weights[kRows];
  for (int k = 0; k < kRows; ++k) {
    rows[k] = source(position + k);
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
template <bool kFirst, class Place, class Source>
HWY_INLINE void AddSomeEdges(int64_t position, int64_t count,
                             const Place& place, const Source& source,
                             HeadShape shape, float* out) {
  switch (count) {
    case 1:
      return AddEdges<1, kFirst>(position, place, source, shape, out);
    case 2:
      return AddEdges<2, kFirst>(position, place, source, shape, out);
    case 3:
      return AddEdges<3, kFirst>(position, place, source, shape, out);
    default:
      return AddEdges<4, kFirst>(position, place, source, shape, out);
  }
}

// Calls `add(is_first, position, count, sum)` for the edges of each row, at
// most kRowsPerPass at a time, to be added to its output row;
// `prefetch(position)` comes before. `width`: columns of `out`.
template <class Prefetch, class Add>
HWY_INLINE void ForEdges(const EdgeLists& lists, RowRange rows, int64_t width,
                         float* out, const Prefetch& prefetch, const Add& add) {
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
        prefetch(next);
      }
      add(position == first, position, count, sum);
    }
  }
}

template <class Place, class Source>
HWY_INLINE void SumRows(const EdgeLists& lists, RowRange rows,
                        const Place& place, const Source& source,
                        HeadShape shape, float* out) {
  const int64_t width = shape.heads * shape.channels;
  const auto row_bytes = static_cast<int64_t>(width * sizeof(float));
  ForEdges(
      lists, rows, width, out,
      [&](int64_t position)
          HWY_ATTR { PrefetchRow(source(position), row_bytes); },
      [&](bool is_first, int64_t position, int64_t count, float* sum) HWY_ATTR {
        if (is_first) {
          AddSomeEdges<true>(position, count, place, source, shape, sum);
        } else {
          AddSomeEdges<false>(position, count, place, source, shape, sum);
        }
      });
}

void WeightedSum(const EdgeLists& lists, RowRange rows, const float* weights,
                 const float* source, HeadShape shape, float* out) {
  const DenseSource from{lists.indices, source, shape.heads * shape.channels};
  if (lists.edges == nullptr) {
    SumRows(lists, rows, OwnPlace{weights, shape.heads}, from, shape, out);
  } else {
    SumRows(lists, rows, MappedPlace{weights, shape.heads, lists.edges}, from,
            shape, out);
  }
}

// Columns of some edges' rows that are widened at a time: in the first-level
// cache, and a multiple of every vector's width, so that bits do not change.
constexpr int64_t kWidenedColumns = 256;

struct WidenedSource {
  const float* operator()(int64_t position) const {
    return widened + (position - first) * kWidenedColumns;
  }
  const float* widened;
  int64_t first;
};

// SumRows of rows of narrower elements.
template <class Element>
HWY_INLINE void SumWidenedRows(const EdgeLists& lists, RowRange rows,
                               const float* weights,
                               const AddressedRows& source, float* out) {
  HWY_ALIGN float widened[kRowsPerPass * kWidenedColumns];
  const int64_t dim = source.dim;
  const int64_t row_bytes = RowBytes<Element>(dim);
  const RowsAt at(source, row_bytes);
  const OwnPlace place{weights, /*heads=*/1};
  ForEdges(
      lists, rows, dim, out,
      [&](int64_t position)
          HWY_ATTR { PrefetchRow(at(lists.indices[position]), row_bytes); },
      [&](bool is_first, int64_t position, int64_t count, float* sum) HWY_ATTR {
        for (int64_t column = 0; column < dim; column += kWidenedColumns) {
          const int64_t columns = std::min(kWidenedColumns, dim - column);
          for (int64_t k = 0; k < count; ++k) {
            WidenColumns<Element>(at(lists.indices[position + k]), dim, column,
                                  columns, widened + k * kWidenedColumns);
          }
          const WidenedSource from{widened, position};
          const HeadShape shape{.heads = 1, .channels = columns};
          if (is_first) {
            AddSomeEdges<true>(position, count, place, from, shape,
                               sum + column);
          } else {
            AddSomeEdges<false>(position, count, place, from, shape,
                                sum + column);
          }
        }
      });
}

void WeightedSumAddressed(const EdgeLists& lists, RowRange rows,
                          const float* weights, const AddressedRows& source,
                          float* out) {
  ForElement(source.type, [&](auto element) HWY_ATTR {
    using Element = decltype(element);
    if constexpr (std::is_same_v<Element, Float32>) {
      SumRows(lists, rows, OwnPlace{weights, /*heads=*/1},
              PlacedSource{lists.indices,
                           RowsAt(source, RowBytes<Float32>(source.dim))},
              {.heads = 1, .channels = source.dim}, out);
    } else {
      SumWidenedRows<Element>(lists, rows, weights, source, out);
    }
  });
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
                    static_cast<int64_t>(width * sizeof(float)));
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
HWY_EXPORT(WeightedSumAddressed);
HWY_EXPORT(Dots);

void WeightedSumRows(const EdgeLists& lists, RowRange rows,
                     const float* weights, const float* source, HeadShape shape,
                     float* out) {
  HWY_DYNAMIC_DISPATCH(WeightedSum)
  (lists, rows, weights, source, shape, out);
}

void WeightedSumRows(const EdgeLists& lists, RowRange rows,
                     const float* weights, const AddressedRows& source,
                     float* out) {
  HWY_DYNAMIC_DISPATCH(WeightedSumAddressed)
  (lists, rows, weights, source, out);
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
