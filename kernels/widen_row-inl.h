// Widening of rows for the kernels of one instruction set: included once for
// each by files that Highway compiles several times.

// Toggled for each instruction set.
#if defined(HEARTH_KERNELS_WIDEN_ROW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEARTH_KERNELS_WIDEN_ROW_INL_H_
#undef HEARTH_KERNELS_WIDEN_ROW_INL_H_
#else
#define HEARTH_KERNELS_WIDEN_ROW_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/copy_rows.h"
#include "kernels/widen.h"

HWY_BEFORE_NAMESPACE();
namespace hearth::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

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

// Widens columns first .. first + count - 1 of a row of `dim` 2-byte elements
// to out[0 .. count - 1].
template <class Element>
HWY_INLINE void WidenColumns(const std::byte* row, int64_t /*dim*/,
                             int64_t first, int64_t count,
                             float* HWY_RESTRICT out) {
  row += first * Element::kBytes;
  int64_t column = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> words;
  const hn::Rebind<uint16_t, decltype(d)> halves;
  // Loaded as bytes, since the row may be of any alignment.
  const hn::Repartition<uint8_t, decltype(halves)> bytes;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; column + lanes <= count; column += lanes) {
    const auto loaded =
        hn::LoadU(bytes, reinterpret_cast<const uint8_t*>(row) + 2 * column);
    const auto wide = hn::PromoteTo(words, hn::BitCast(halves, loaded));
    hn::StoreU(Element::Widen(d, words, wide), d, out + column);
  }
#endif
  for (; column < count; ++column) {
    uint16_t element = 0;
    std::memcpy(&element, row + 2 * column, sizeof(element));
    out[column] = Element::Widen(element);
  }
}

// Float32 stays as it is.
template <>
HWY_INLINE void WidenColumns<Float32>(const std::byte* row, int64_t /*dim*/,
                                      int64_t first, int64_t count,
                                      float* HWY_RESTRICT out) {
  std::memcpy(out, row + first * Float32::kBytes,
              static_cast<size_t>(count) * sizeof(float));
}

template <>
HWY_INLINE void WidenColumns<ScaledInt8>(const std::byte* row, int64_t dim,
                                         int64_t first, int64_t count,
                                         float* HWY_RESTRICT out) {
  const auto* const values = reinterpret_cast<const int8_t*>(row) + first;
  float scale = 0;
  std::memcpy(&scale, row + dim, sizeof(scale));
  int64_t column = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> words;
  const hn::Rebind<int8_t, decltype(d)> bytes;
  const auto scales = hn::Set(d, scale);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; column + lanes <= count; column += lanes) {
    const auto wide = hn::PromoteTo(words, hn::LoadU(bytes, values + column));
    hn::StoreU(hn::Mul(hn::ConvertTo(d, wide), scales), d, out + column);
  }
#endif
  for (; column < count; ++column) {
    out[column] = WidenInt8(values[column], scale);
  }
}

// Bytes of a row of `dim` elements.
template <class Element>
constexpr int64_t RowBytes(int64_t dim) {
  return dim * Element::kBytes + Element::kTail;
}

// Calls `function` with an object of the class above for `type`.
template <class F>
HWY_INLINE void ForElement(ElementType type, const F& function) {
  switch (type) {
    case ElementType::kFloat32:
      return function(Float32());
    case ElementType::kFloat16:
      return function(Float16());
    case ElementType::kBFloat16:
      return function(BFloat16());
    case ElementType::kScaledInt8:
      return function(ScaledInt8());
  }
}

// Bytes of a row that are prefetched; the processor's own prefetcher follows
// from there.
constexpr int64_t kPrefetchBytes = 512;

HWY_INLINE void PrefetchRow(const void* row, int64_t row_bytes) {
  const int64_t bytes = std::min(row_bytes, kPrefetchBytes);
  for (int64_t offset = 0; offset < bytes; offset += 64) {
    hwy::Prefetch(static_cast<const char*>(row) + offset);
  }
}

// Where row i of AddressedRows is.
class RowsAt {
 public:
  RowsAt(const AddressedRows& rows, int64_t row_bytes)
      : slots_(rows.slots),
        landed_(rows.landed),
        num_slots_(rows.num_slots),
        addresses_(rows.addresses),
        row_bytes_(row_bytes) {}

  HWY_INLINE const std::byte* operator()(int64_t i) const {
    const uint32_t address = addresses_[i];
    const bool is_slot = address < num_slots_;
    return (is_slot ? slots_ : landed_) +
           (address - (is_slot ? 0 : num_slots_)) * row_bytes_;
  }

 private:
  const std::byte* const slots_;
  const std::byte* const landed_;
  const uint32_t num_slots_;
  const uint32_t* const addresses_;
  const int64_t row_bytes_;
};

}  // namespace HWY_NAMESPACE
}  // namespace hearth::kernels
HWY_AFTER_NAMESPACE();

#endif  // HEARTH_KERNELS_WIDEN_ROW_INL_H_
