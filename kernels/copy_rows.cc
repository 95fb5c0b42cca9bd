#include "kernels/copy_rows.h"

#include <cstddef>
#include <cstdint>

// Highway compiles what lies between its BEFORE and AFTER macros once per
// instruction set, by including this file again.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/copy_rows.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, as Highway requires.
#include "hwy/highway.h"
#include "kernels/widen_row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hearth::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows ahead of the copy that are prefetched.
constexpr int64_t kRowsAhead = 8;

// Places of rows in a matrix: one after the other, which the processor
// foresees, or as in a list (At).
template <typename Byte>
struct InOrder {
  static constexpr bool kForeseen = true;
  Byte* operator()(int64_t i) const { return data + i * row_bytes; }

  Byte* data;
  int64_t row_bytes;
};

template <typename Byte, typename Row>
struct At {
  static constexpr bool kForeseen = false;
  Byte* operator()(int64_t i) const { return data + rows[i] * row_bytes; }

  Byte* data;
  int64_t row_bytes;
  const Row* rows;
};

// Rows where they lie, from row `first` on.
struct AtAddress {
  static constexpr bool kForeseen = false;
  const std::byte* operator()(int64_t i) const { return rows(first + i); }

  RowsAt rows;
  int64_t first;
};

// Row to(i) = row from(i), for i < count.
template <class Element, class From, class To>
HWY_INLINE void CopyRows(From from, To to, int64_t dim, int64_t count) {
  const int64_t row_bytes = RowBytes<Element>(dim);
  const int64_t out_bytes = RowBytes<Float32>(dim);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t ahead = i + kRowsAhead;
    if (ahead < count) {
      if (!From::kForeseen) PrefetchRow(from(ahead), row_bytes);
      if (!To::kForeseen) PrefetchRow(to(ahead), out_bytes);
    }
    WidenColumns<Element>(from(i), dim, 0, dim,
                          reinterpret_cast<float*>(to(i)));
  }
}

InOrder<std::byte> OutInOrder(float* out, int64_t dim) {
  return {reinterpret_cast<std::byte*>(out), RowBytes<Float32>(dim)};
}

void Gather(const FeatureRows& source, const int64_t* indices, int64_t count,
            float* out) {
  ForElement(source.type, [&](auto element) HWY_ATTR {
    using Element = decltype(element);
    CopyRows<Element>(
        At<const std::byte, int64_t>{source.data, RowBytes<Element>(source.dim),
                                     indices},
        OutInOrder(out, source.dim), source.dim, count);
  });
}

void GatherAddressed(const AddressedRows& source, int64_t first, int64_t count,
                     float* out) {
  ForElement(source.type, [&](auto element) HWY_ATTR {
    using Element = decltype(element);
    CopyRows<Element>(
        AtAddress{RowsAt(source, RowBytes<Element>(source.dim)), first},
        OutInOrder(out, source.dim), source.dim, count);
  });
}

void Scatter(const FeatureRows& source, const int64_t* slots,
             const int32_t* positions, int64_t count, float* out) {
  const At<std::byte, int32_t> to{reinterpret_cast<std::byte*>(out),
                                  RowBytes<Float32>(source.dim), positions};
  ForElement(source.type, [&](auto element) HWY_ATTR {
    using Element = decltype(element);
    const int64_t row_bytes = RowBytes<Element>(source.dim);
    if (slots == nullptr) {
      CopyRows<Element>(InOrder<const std::byte>{source.data, row_bytes}, to,
                        source.dim, count);
    } else {
      CopyRows<Element>(
          At<const std::byte, int64_t>{source.data, row_bytes, slots}, to,
          source.dim, count);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace hearth::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hearth::kernels {

HWY_EXPORT(Gather);
HWY_EXPORT(GatherAddressed);
HWY_EXPORT(Scatter);

void GatherRows(const FeatureRows& source, const int64_t* indices,
                int64_t count, float* out) {
  // Also keeps null pointers of empty matrices from memcpy.
  if (source.dim == 0) return;
  HWY_DYNAMIC_DISPATCH(Gather)(source, indices, count, out);
}

void GatherRows(const AddressedRows& source, int64_t first, int64_t count,
                float* out) {
  if (source.dim == 0) return;
  HWY_DYNAMIC_DISPATCH(GatherAddressed)(source, first, count, out);
}

void ScatterRows(const FeatureRows& source, const int64_t* slots,
                 const int32_t* positions, int64_t count, float* out) {
  if (source.dim == 0) return;
  HWY_DYNAMIC_DISPATCH(Scatter)(source, slots, positions, count, out);
}

}  // namespace hearth::kernels
#endif  // HWY_ONCE
