#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cuda/kernels.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/widen.h"

// Gathering and scattering rows: a warp copies a row.

namespace hearth::kernels {

struct Float32 {
  using Storage = float;
  static __device__ float Widen(float value) { return value; }
};

struct Float16 {
  using Storage = uint16_t;
  static __device__ float Widen(uint16_t value) { return WidenFloat16(value); }
};

struct BFloat16 {
  using Storage = uint16_t;
  static __device__ float Widen(uint16_t value) { return WidenBFloat16(value); }
};

struct ScaledInt8 {
  using Storage = int8_t;
};

// WidenRow of int8s and their scale, which may be of any alignment.
template <int kCount>
__device__ void WidenScaledRow(const void* rows, int64_t from, int64_t dim,
                               float* out, int64_t to) {
  using Source = Pack<int8_t, kCount>;
  using Target = Pack<float, kCount>;
  const int8_t* const row =
      static_cast<const int8_t*>(rows) + from * (dim + kScaleBytes);
  float scale;
  memcpy(&scale, row + dim, sizeof(scale));
  const auto* source = reinterpret_cast<const Source*>(row);
  auto* target = reinterpret_cast<Target*>(out + to * dim);
  for (int64_t pack = Lane(); pack < dim / kCount; pack += kWarp) {
    const Source loaded = source[pack];
    Target stored;
    for (int i = 0; i < kCount; ++i) {
      stored.values[i] = WidenInt8(loaded.values[i], scale);
    }
    target[pack] = stored;
  }
}

// Row `to` of `out` = row `from` of `rows`, both of `dim` elements; a thread
// loads `kCount` elements at once. Called by a whole warp.
template <typename Element, int kCount>
__device__ void WidenFloatRow(const void* rows, int64_t from, int64_t dim,
                              float* out, int64_t to) {
  using Source = Pack<typename Element::Storage, kCount>;
  // A thread stores at most 16 bytes at once.
  constexpr int kStored = kCount < 4 ? kCount : 4;
  using Target = Pack<float, kStored>;
  const int64_t packs = dim / kCount;
  const auto* source = static_cast<const Source*>(rows) + from * packs;
  auto* target = reinterpret_cast<Target*>(out + to * dim);
  for (int64_t pack = Lane(); pack < packs; pack += kWarp) {
    const Source loaded = source[pack];
    for (int first = 0; first < kCount; first += kStored) {
      Target stored;
      for (int i = 0; i < kStored; ++i) {
        stored.values[i] = Element::Widen(loaded.values[first + i]);
      }
      target[(pack * kCount + first) / kStored] = stored;
    }
  }
}

template <typename Element, int kCount>
__device__ void WidenRow(const void* rows, int64_t from, int64_t dim,
                         float* out, int64_t to) {
  if constexpr (std::is_same_v<Element, ScaledInt8>) {
    WidenScaledRow<kCount>(rows, from, dim, out, to);
  } else {
    WidenFloatRow<Element, kCount>(rows, from, dim, out, to);
  }
}

// Elements of the widest load of a thread. Scales between rows of int8s leave
// them aligned to four bytes at most.
template <typename Element>
inline constexpr int kWide = kLoadBytes / sizeof(typename Element::Storage);
template <>
inline constexpr int kWide<ScaledInt8> = kScaleBytes;

// Calls `launch` with the element type, Float32{} for instance.
template <typename Launch>
cudaError_t ForElement(int32_t element, const Launch& launch) {
  switch (element) {
    case HEARTH_CUDA_FLOAT32:
      return launch(Float32{});
    case HEARTH_CUDA_FLOAT16:
      return launch(Float16{});
    case HEARTH_CUDA_BFLOAT16:
      return launch(BFloat16{});
    case HEARTH_CUDA_SCALED_INT8:
      return launch(ScaledInt8{});
  }
  return cudaErrorInvalidValue;
}

namespace {

template <typename Element, int kCount>
__global__ void GatherKernel(HearthCudaGather gather) {
  for (int64_t row = FirstRow(); row < gather.count; row += RowStride()) {
    WidenRow<Element, kCount>(gather.source, gather.indices[row], gather.dim,
                              gather.out, row);
  }
}

template <typename Element>
cudaError_t LaunchOf(const HearthCudaGather& gather, cudaStream_t stream) {
  const bool wide = gather.dim % kWide<Element> == 0 &&
                    IsAligned(gather.source) && IsAligned(gather.out);
  const auto kernel =
      wide ? GatherKernel<Element, kWide<Element>> : GatherKernel<Element, 1>;
  return LaunchRows(kernel, gather.count, gather, stream);
}

// Warps take the rows of all parts as if they were one list.
template <typename Element, int kCount>
__global__ void ScatterKernel(HearthCudaScatter scatter) {
  int64_t row = FirstRow();
#pragma unroll
  for (int i = 0; i < HEARTH_CUDA_SCATTER_PARTS; ++i) {
    const HearthCudaScatterPart& part = scatter.parts[i];
    for (; row < part.count; row += RowStride()) {
      const int64_t from = part.slots == nullptr ? row : part.slots[row];
      WidenRow<Element, kCount>(part.rows, from, scatter.dim, scatter.out,
                                part.positions[row]);
    }
    row -= part.count;
  }
}

template <typename Element>
cudaError_t LaunchOf(const HearthCudaScatter& scatter, int64_t count,
                     cudaStream_t stream) {
  bool wide = scatter.dim % kWide<Element> == 0 && IsAligned(scatter.out);
  for (const HearthCudaScatterPart& part : scatter.parts) {
    wide = wide && (part.count == 0 || IsAligned(part.rows));
  }
  const auto kernel =
      wide ? ScatterKernel<Element, kWide<Element>> : ScatterKernel<Element, 1>;
  return LaunchRows(kernel, count, scatter, stream);
}

}  // namespace

cudaError_t LaunchGather(const HearthCudaGather& gather, cudaStream_t stream) {
  if (gather.count < 0 || gather.dim < 0) return cudaErrorInvalidValue;
  if (gather.count == 0 || gather.dim == 0) return cudaSuccess;
  return ForElement(gather.element, [&](auto element) {
    return LaunchOf<decltype(element)>(gather, stream);
  });
}

cudaError_t LaunchScatter(const HearthCudaScatter& scatter,
                          cudaStream_t stream) {
  int64_t count = 0;
  for (const HearthCudaScatterPart& part : scatter.parts) {
    if (part.count < 0) return cudaErrorInvalidValue;
    count += part.count;
  }
  if (scatter.dim < 0) return cudaErrorInvalidValue;
  if (count == 0 || scatter.dim == 0) return cudaSuccess;
  return ForElement(scatter.element, [&](auto element) {
    return LaunchOf<decltype(element)>(scatter, count, stream);
  });
}

}  // namespace hearth::kernels
