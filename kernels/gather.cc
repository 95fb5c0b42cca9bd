#include "kernels/gather.h"

#include <algorithm>
#include <cstring>

#include "kernels/widen.h"

// Highway compiles what lies between its BEFORE and AFTER macros once per
// instruction set, by including this file again.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gather.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace hearth::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows asked for ahead of their copy, and how much of each; the processor's own
// prefetcher follows from there.
constexpr int64_t kRowsAhead = 8;
constexpr int64_t kPrefetchBytes = 512;

// Widening of elements one by one and in vectors, which do what WidenFloat16
// does. (Highway's own conversion has no infinities on processors without
// F16C.)
struct Float16 {
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
  static float Widen(uint16_t upper) { return WidenBFloat16(upper); }

  template <class D, class Words>
  static HWY_INLINE hn::Vec<D> Widen(D d, Words /*words*/,
                                     hn::Vec<Words> upper) {
    return hn::BitCast(d, hn::ShiftLeft<16>(upper));
  }
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
  // As bytes, since the row may be of any alignment.
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

HWY_INLINE void PrefetchRow(const std::byte* row, int64_t row_bytes) {
  const int64_t bytes = std::min(row_bytes, kPrefetchBytes);
  for (int64_t offset = 0; offset < bytes; offset += 64) {
    hwy::Prefetch(row + offset);
  }
}

template <class Element>
HWY_INLINE void GatherWidened(const FeatureRows& source, const int64_t* indices,
                              int64_t count, float* out) {
  const int64_t row_bytes = source.dim * 2;
  for (int64_t i = 0; i < count; ++i) {
    if (i + kRowsAhead < count) {
      PrefetchRow(source.data + indices[i + kRowsAhead] * row_bytes, row_bytes);
    }
    WidenRow<Element>(source.data + indices[i] * row_bytes, source.dim,
                      out + i * source.dim);
  }
}

void GatherFloat16(const FeatureRows& source, const int64_t* indices,
                   int64_t count, float* out) {
  GatherWidened<Float16>(source, indices, count, out);
}

void GatherBFloat16(const FeatureRows& source, const int64_t* indices,
                    int64_t count, float* out) {
  GatherWidened<BFloat16>(source, indices, count, out);
}

void GatherFloat32(const FeatureRows& source, const int64_t* indices,
                   int64_t count, float* out) {
  const int64_t row_bytes = source.dim * 4;
  for (int64_t i = 0; i < count; ++i) {
    if (i + kRowsAhead < count) {
      PrefetchRow(source.data + indices[i + kRowsAhead] * row_bytes, row_bytes);
    }
    std::memcpy(out + i * source.dim, source.data + indices[i] * row_bytes,
                row_bytes);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace hearth::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hearth::kernels {

HWY_EXPORT(GatherFloat32);
HWY_EXPORT(GatherFloat16);
HWY_EXPORT(GatherBFloat16);

void GatherRows(const FeatureRows& source, const int64_t* indices,
                int64_t count, float* out) {
  // Also keeps null pointers of empty matrices from memcpy.
  if (source.dim == 0) return;
  switch (source.type) {
    case ElementType::kFloat32:
      return HWY_DYNAMIC_DISPATCH(GatherFloat32)(source, indices, count, out);
    case ElementType::kFloat16:
      return HWY_DYNAMIC_DISPATCH(GatherFloat16)(source, indices, count, out);
    case ElementType::kBFloat16:
      return HWY_DYNAMIC_DISPATCH(GatherBFloat16)(source, indices, count, out);
  }
}

}  // namespace hearth::kernels
#endif  // HWY_ONCE
