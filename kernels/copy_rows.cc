#include "kernels/copy_rows.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/widen.h"

// Highway compiles what lies between its BEFORE and AFTER macros once per
// instruction set, by including this file again.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/copy_rows.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, as Highway requires.
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace hearth::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows ahead of the copy that are prefetched, and how many bytes of each; the
// processor's own prefetcher follows from there.
constexpr int64_t kRowsAhead = 8;
constexpr int64_t kPrefetchBytes = 512;

struct Float32 {
  static constexpr int64_t kBytes = 4;
  // Bytes behind the elements of a row.
  static constexpr int64_t kTail = 0;
};

// Widening of single elements and of vectors, both as WidenFloat16 does.
// (Highway's own conversion has no infinities on processors without F16C.)
struct Float16 {
  static constexpr int64_t kBytes = 2;
  static constexpr int64_t kTail = 0;

  static float Widen(uint16_t half) { return WidenFloat16(half); }

  template <class D, class Words>
  static HWY_INLINE hn::Vec<D> Widen(D d, Words words, hn::Vec<Words> half) {
    const auto magnitude =
        hn::ShiftLeft<13>(hn::And(half, hn::Set(words, 0x7FFF)));
    const auto sign = hn::ShiftLeft<16>(hn::And(half, hn::Set(words, 0x8000)));
    const auto infinity = hn::Set(words, float16::kExponent);
    const auto exponent = hn::And(magnitude, infinity);
    const auto rebiased = hn::Add(magnitude, hn::Set(words, float16::kRebias));
    const auto special =
        hn::Add(rebiased, hn::Set(words, float16::kInfinityRebias));
    const auto raised = hn::BitCast(
        d, hn::Add(rebiased, hn::Set(words, float16::kOneExponent)));
    const auto subnormal = hn::BitCast(
        words,
        hn::Sub(raised,
                hn::BitCast(d, hn::Set(words, float16::kSmallestNormal))));
    const auto finite =
        hn::IfThenElse(hn::Eq(exponent, hn::Zero(words)), subnormal, rebiased);
    return hn::BitCast(
        d, hn::Or(sign,
                  hn::IfThenElse(hn::Eq(exponent, infinity), special, finite)));
  }
};

struct BFloat16 {
  static constexpr int64_t kBytes = 2;
  static constexpr int64_t kTail = 0;

  static float Widen(uint16_t upper) { return WidenBFloat16(upper); }

  template <class D, class Words>
  static HWY_INLINE hn::Vec<D> Widen(D d, Words /*words*/,
                                     hn::Vec<Words> upper) {
    return hn::BitCast(d, hn::ShiftLeft<16>(upper));
  }
};

struct ScaledInt8 {
  static constexpr int64_t kBytes = 1;
  static constexpr int64_t kTail = kScaleBytes;
};

// One row of 2-byte elements.
template <class Element>
HWY_INLINE void WidenRow(const std::byte* row, int64_t dim,
                         float* HWY_RESTRICT out) {
  int64_t column = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> words;
  const hn::Rebind<uint16_t, decltype(d)> halves;
  // Loaded as bytes, since the row may be of any alignment.
  const hn::Repartition<uint8_t, decltype(halves)> bytes;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; column + lanes <= dim; column += lanes) {
    const auto loaded =
        hn::LoadU(bytes, reinterpret_cast<const uint8_t*>(row) + 2 * column);
    const auto wide = hn::PromoteTo(words, hn::BitCast(halves, loaded));
    hn::StoreU(Element::Widen(d, words, wide), d, out + column);
  }
#endif
  for (; column < dim; ++column) {
    uint16_t element = 0;
    std::memcpy(&element, row + 2 * column, sizeof(element));
    out[column] = Element::Widen(element);
  }
}

// Float32 stays as it is.
template <>
HWY_INLINE void WidenRow<Float32>(const std::byte* row, int64_t dim,
                                  float* HWY_RESTRICT out) {
  std::memcpy(out, row, static_cast<size_t>(dim) * sizeof(float));
}

template <>
HWY_INLINE void WidenRow<ScaledInt8>(const std::byte* row, int64_t dim,
                                     float* HWY_RESTRICT out) {
  const auto* const values = reinterpret_cast<const int8_t*>(row);
  float scale = 0;
  std::memcpy(&scale, row + dim, sizeof(scale));
  int64_t column = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> words;
  const hn::Rebind<int8_t, decltype(d)> bytes;
  const auto scales = hn::Set(d, scale);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; column + lanes <= dim; column += lanes) {
    const auto wide = hn::PromoteTo(words, hn::LoadU(bytes, values + column));
    hn::StoreU(hn::Mul(hn::ConvertTo(d, wide), scales), d, out + column);
  }
#endif
  for (; column < dim; ++column) out[column] = WidenInt8(values[column], scale);
}

HWY_INLINE void PrefetchRow(const std::byte* row, int64_t row_bytes) {
  const int64_t bytes = std::min(row_bytes, kPrefetchBytes);
  for (int64_t offset = 0; offset < bytes; offset += 64) {
    hwy::Prefetch(row + offset);
  }
}

// Orders of rows: one after the other, which the processor foresees, or as in a
// list (At).
struct InOrder {
  static constexpr bool kForeseen = true;
  int64_t operator()(int64_t i) const { return i; }
};

template <typename Row>
struct At {
  static constexpr bool kForeseen = false;
  int64_t operator()(int64_t i) const { return rows[i]; }

  const Row* rows;
};

// Row to(i) of `out` = row from(i) of `source`, for i < count.
template <class Element, class From, class To>
HWY_INLINE void CopyRows(const FeatureRows& source, From from, To to,
                         int64_t count, float* out) {
  const int64_t row_bytes = source.dim * Element::kBytes + Element::kTail;
  const int64_t out_bytes = source.dim * static_cast<int64_t>(sizeof(float));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t ahead = i + kRowsAhead;
    if (ahead < count) {
      if (!From::kForeseen) {
        PrefetchRow(source.data + from(ahead) * row_bytes, row_bytes);
      }
      if (!To::kForeseen) {
        PrefetchRow(
            reinterpret_cast<const std::byte*>(out) + to(ahead) * out_bytes,
            out_bytes);
      }
    }
    WidenRow<Element>(source.data + from(i) * row_bytes, source.dim,
                      out + to(i) * source.dim);
  }
}

// CopyRows for the element type of `source`.
template <class From, class To>
HWY_INLINE void CopyRowsOfAnyType(const FeatureRows& source, From from, To to,
                                  int64_t count, float* out) {
  switch (source.type) {
    case ElementType::kFloat32:
      return CopyRows<Float32>(source, from, to, count, out);
    case ElementType::kFloat16:
      return CopyRows<Float16>(source, from, to, count, out);
    case ElementType::kBFloat16:
      return CopyRows<BFloat16>(source, from, to, count, out);
    case ElementType::kScaledInt8:
      return CopyRows<ScaledInt8>(source, from, to, count, out);
  }
}

void Gather(const FeatureRows& source, const int64_t* indices, int64_t count,
            float* out) {
  CopyRowsOfAnyType(source, At<int64_t>{indices}, InOrder(), count, out);
}

void Scatter(const FeatureRows& source, const int64_t* slots,
             const int32_t* positions, int64_t count, float* out) {
  const At<int32_t> to{positions};
  if (slots == nullptr) {
    CopyRowsOfAnyType(source, InOrder(), to, count, out);
  } else {
    CopyRowsOfAnyType(source, At<int64_t>{slots}, to, count, out);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace hearth::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hearth::kernels {

HWY_EXPORT(Gather);
HWY_EXPORT(Scatter);

void GatherRows(const FeatureRows& source, const int64_t* indices,
                int64_t count, float* out) {
  // Also keeps null pointers of empty matrices from memcpy.
  if (source.dim == 0) return;
  HWY_DYNAMIC_DISPATCH(Gather)(source, indices, count, out);
}

void ScatterRows(const FeatureRows& source, const int64_t* slots,
                 const int32_t* positions, int64_t count, float* out) {
  if (source.dim == 0) return;
  HWY_DYNAMIC_DISPATCH(Scatter)(source, slots, positions, count, out);
}

}  // namespace hearth::kernels
#endif  // HWY_ONCE
