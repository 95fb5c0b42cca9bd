#include "engine/model/cpu/product_operands.h"

#include <algorithm>
#include <bit>

// Highway compiles the code between its BEFORE and AFTER macros once per
// instruction set, by including this file again.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/model/cpu/product_operands.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#ifndef HEARTH_ENGINE_MODEL_PRODUCT_OPERANDS_ONCE
#define HEARTH_ENGINE_MODEL_PRODUCT_OPERANDS_ONCE
namespace hearth::model {

// Rows that are transposed together: they fill one cache line of the result.
inline constexpr int64_t kTransposedRows = 16;
// Prefetch distance, in rows: the processor does not foresee the next row of a
// block that is narrower than its matrix.
inline constexpr int64_t kRowsAhead = 4;

// Rounds to the nearest bfloat16, ties to even. A bfloat16 is the upper half of
// a float32; adding 0x7FFF and the last bit that stays rounds that half.
inline uint32_t RoundedUpperHalf(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (value != value) return (bits | 0x00400000u) & 0xFFFF0000u;
  return (bits + 0x7FFFu + ((bits >> 16) & 1u)) & 0xFFFF0000u;
}

}  // namespace hearth::model
#endif  // HEARTH_ENGINE_MODEL_PRODUCT_OPERANDS_ONCE

HWY_BEFORE_NAMESPACE();
namespace hearth::model {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Prefetches `row`, a row of a block or the one after its last.
template <typename T>
HWY_INLINE void PrefetchRow(const MatrixBlock<T>& block, int64_t row) {
  if (row >= block.rows) return;
  const auto* begin =
      reinterpret_cast<const char*>(block.data + row * block.stride);
  const auto bytes = static_cast<int64_t>(sizeof(T)) * block.columns;
  for (int64_t offset = 0; offset < bytes; offset += 64) {
    hwy::Prefetch(begin + offset);
  }
}

// Applies RoundedUpperHalf to every lane.
template <class D, class W = hn::RebindToUnsigned<D>>
HWY_INLINE hn::Vec<W> RoundLanes(D floats, hn::Vec<D> values) {
  const W words;
  const auto bits = hn::BitCast(words, values);
  const auto last = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1));
  const auto rounded = hn::Add(bits, hn::Add(last, hn::Set(words, 0x7FFF)));
  const auto nan = hn::Or(bits, hn::Set(words, 0x00400000));
  // Eq, because Ne is false for NaN in AVX-512 of Highway 1.0.3.
  const auto number = hn::RebindMask(words, hn::Eq(values, values));
  return hn::And(hn::IfThenElse(number, rounded, nan),
                 hn::Set(words, 0xFFFF0000));
}

void Round(const MatrixBlock<float>& from, int64_t to_stride,
           Bfloat16Bits* to) {
  const hn::ScalableTag<float> floats;
  const hn::RebindToSigned<decltype(floats)> integers;
  const hn::Rebind<uint16_t, decltype(floats)> halves;
  const auto lanes = static_cast<int64_t>(hn::Lanes(floats));
  for (int64_t row = 0; row < from.rows; ++row) {
    const float* given = from.data + row * from.stride;
    Bfloat16Bits* rounded = to + row * to_stride;
    int64_t column = 0;
    for (; column + lanes <= from.columns; column += lanes) {
      const auto upper = hn::ShiftRight<16>(
          RoundLanes(floats, hn::LoadU(floats, given + column)));
      hn::StoreU(hn::DemoteTo(halves, hn::BitCast(integers, upper)), halves,
                 rounded + column);
    }
    for (; column < from.columns; ++column) {
      rounded[column] =
          static_cast<uint16_t>(RoundedUpperHalf(given[column]) >> 16);
    }
  }
}

// Bfloat16s in the upper halves of words, for a vector and for a single
// element.
template <class D>
HWY_INLINE hn::Vec<D> UpperHalves(D words, const float* from) {
  const hn::RebindToFloat<D> floats;
  return RoundLanes(floats, hn::LoadU(floats, from));
}

template <class D>
HWY_INLINE hn::Vec<D> UpperHalves(D words, const Bfloat16Bits* from) {
  const hn::Rebind<uint16_t, D> halves;
  return hn::ShiftLeft<16>(hn::PromoteTo(words, hn::LoadU(halves, from)));
}

HWY_INLINE uint32_t UpperHalf(float value) { return RoundedUpperHalf(value); }

HWY_INLINE uint32_t UpperHalf(Bfloat16Bits bits) {
  return uint32_t{bits} << 16;
}

template <typename T>
HWY_INLINE void Pair(const MatrixBlock<T>& from, Bfloat16Pair* to) {
  const hn::ScalableTag<uint32_t> words;
  const auto lanes = static_cast<int64_t>(hn::Lanes(words));
  for (int64_t row = 0; row < from.rows; row += 2, to += from.columns) {
    PrefetchRow(from, row + kRowsAhead);
    PrefetchRow(from, row + kRowsAhead + 1);
    const T* first = from.data + row * from.stride;
    const bool paired = row + 1 < from.rows;
    const T* second = paired ? first + from.stride : first;
    const uint32_t keep = paired ? 0xFFFFFFFFu : 0u;
    int64_t column = 0;
    for (; column + lanes <= from.columns; column += lanes) {
      const auto lower = UpperHalves(words, first + column);
      const auto upper = UpperHalves(words, second + column);
      hn::StoreU(hn::Or(hn::ShiftRight<16>(lower),
                        hn::And(upper, hn::Set(words, keep))),
                 words, to + column);
    }
    for (; column < from.columns; ++column) {
      to[column] =
          (UpperHalf(first[column]) >> 16) | (UpperHalf(second[column]) & keep);
    }
  }
}

void PairFloats(const MatrixBlock<float>& from, Bfloat16Pair* to) {
  Pair(from, to);
}

void PairRounded(const MatrixBlock<Bfloat16Bits>& from, Bfloat16Pair* to) {
  Pair(from, to);
}

void Panels(const MatrixBlock<float>& from, int64_t panel_columns, int64_t rows,
            float* to) {
  const hn::ScalableTag<float> floats;
  const auto lanes = static_cast<int64_t>(hn::Lanes(floats));
  for (int64_t row = 0; row < from.rows; ++row) {
    PrefetchRow(from, row + kRowsAhead);
    const float* given = from.data + row * from.stride;
    for (int64_t first = 0; first < from.columns; first += panel_columns) {
      const int64_t count = std::min(panel_columns, from.columns - first);
      float* panel = to + first * rows + row * count;
      int64_t column = 0;
      for (; column + lanes <= count; column += lanes) {
        hn::StoreU(hn::LoadU(floats, given + first + column), floats,
                   panel + column);
      }
      for (; column < count; ++column) panel[column] = given[first + column];
    }
  }
  for (int64_t first = 0; first < from.columns; first += panel_columns) {
    const int64_t count = std::min(panel_columns, from.columns - first);
    std::fill_n(to + first * rows + from.rows * count,
                (rows - from.rows) * count, 0.0f);
  }
}

void AddRowsOf(const MatrixBlock<float>& block, float* sums) {
  const hn::ScalableTag<float> floats;
  const auto lanes = static_cast<int64_t>(hn::Lanes(floats));
  int64_t column = 0;
  for (; column + lanes <= block.columns; column += lanes) {
    auto sum = hn::LoadU(floats, sums + column);
    for (int64_t row = 0; row < block.rows; ++row) {
      sum = hn::Add(
          sum, hn::LoadU(floats, block.data + row * block.stride + column));
    }
    hn::StoreU(sum, floats, sums + column);
  }
  for (; column < block.columns; ++column) {
    for (int64_t row = 0; row < block.rows; ++row) {
      sums[column] += block.data[row * block.stride + column];
    }
  }
}

#if HWY_TARGET != HWY_SCALAR
// Transposes 4 x 4 elements of 32 bits.
template <typename T>
HWY_INLINE void TransposeFour(const T* from, int64_t stride, int64_t to_stride,
                              T* to) {
  const hn::Full128<T> words;
  const hn::Full128<uint64_t> pairs;
  const auto a = hn::LoadU(words, from);
  const auto b = hn::LoadU(words, from + stride);
  const auto c = hn::LoadU(words, from + 2 * stride);
  const auto d = hn::LoadU(words, from + 3 * stride);
  const auto ab_low = hn::BitCast(pairs, hn::InterleaveLower(words, a, b));
  const auto ab_high = hn::BitCast(pairs, hn::InterleaveUpper(words, a, b));
  const auto cd_low = hn::BitCast(pairs, hn::InterleaveLower(words, c, d));
  const auto cd_high = hn::BitCast(pairs, hn::InterleaveUpper(words, c, d));
  const auto store = [&](auto row, int64_t column) {
    hn::StoreU(hn::BitCast(words, row), words, to + column * to_stride);
  };
  store(hn::InterleaveLower(pairs, ab_low, cd_low), 0);
  store(hn::InterleaveUpper(pairs, ab_low, cd_low), 1);
  store(hn::InterleaveLower(pairs, ab_high, cd_high), 2);
  store(hn::InterleaveUpper(pairs, ab_high, cd_high), 3);
}
#endif

template <typename T>
HWY_INLINE void Transpose(const MatrixBlock<T>& from, int64_t to_stride,
                          T* to) {
  for (int64_t first = 0; first < from.rows; first += kTransposedRows) {
    const int64_t end = std::min(first + kTransposedRows, from.rows);
    int64_t column = 0;
#if HWY_TARGET != HWY_SCALAR
    if (end == first + kTransposedRows) {
      for (; column + 4 <= from.columns; column += 4) {
        for (int64_t row = first; row < end; row += 4) {
          TransposeFour(from.data + row * from.stride + column, from.stride,
                        to_stride, to + column * to_stride + row);
        }
      }
    }
#endif
    for (; column < from.columns; ++column) {
      for (int64_t row = first; row < end; ++row) {
        to[column * to_stride + row] = from.data[row * from.stride + column];
      }
    }
  }
}

void TransposeFloats(const MatrixBlock<float>& from, int64_t to_stride,
                     float* to) {
  Transpose(from, to_stride, to);
}

void TransposePairs(const MatrixBlock<Bfloat16Pair>& from, int64_t to_stride,
                    Bfloat16Pair* to) {
  Transpose(from, to_stride, to);
}

}  // namespace HWY_NAMESPACE
}  // namespace hearth::model
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hearth::model {

HWY_EXPORT(Round);
HWY_EXPORT(PairFloats);
HWY_EXPORT(PairRounded);
HWY_EXPORT(Panels);
HWY_EXPORT(AddRowsOf);
HWY_EXPORT(TransposeFloats);
HWY_EXPORT(TransposePairs);

void RoundRows(const MatrixBlock<float>& from, int64_t to_stride,
               Bfloat16Bits* to) {
  HWY_DYNAMIC_DISPATCH(Round)(from, to_stride, to);
}

void PairRows(const MatrixBlock<float>& from, Bfloat16Pair* to) {
  HWY_DYNAMIC_DISPATCH(PairFloats)(from, to);
}

void PairRows(const MatrixBlock<Bfloat16Bits>& from, Bfloat16Pair* to) {
  HWY_DYNAMIC_DISPATCH(PairRounded)(from, to);
}

void CopyPanels(const MatrixBlock<float>& from, int64_t panel_columns,
                int64_t rows, float* to) {
  HWY_DYNAMIC_DISPATCH(Panels)(from, panel_columns, rows, to);
}

void AddRows(const MatrixBlock<float>& block, float* sums) {
  HWY_DYNAMIC_DISPATCH(AddRowsOf)(block, sums);
}

void TransposeBlock(const MatrixBlock<float>& from, int64_t to_stride,
                    float* to) {
  HWY_DYNAMIC_DISPATCH(TransposeFloats)(from, to_stride, to);
}

void TransposeBlock(const MatrixBlock<Bfloat16Pair>& from, int64_t to_stride,
                    Bfloat16Pair* to) {
  HWY_DYNAMIC_DISPATCH(TransposePairs)(from, to_stride, to);
}

}  // namespace hearth::model
#endif  // HWY_ONCE
