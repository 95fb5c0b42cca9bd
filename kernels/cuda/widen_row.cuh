#ifndef HEARTH_KERNELS_CUDA_WIDEN_ROW_CUH_
#define HEARTH_KERNELS_CUDA_WIDEN_ROW_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/hearth_cuda.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/widen.h"

/// Code shared by the kernels that move rows: a warp copies a row.

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

/// Row `to` of `out` = row `from` of `rows`, both of `dim` elements; `kCount`
/// of them are loaded by a thread at once. Called by a whole warp.
template <typename Element, int kCount>
__device__ void WidenRow(const void* rows, int64_t from, int64_t dim,
                         float* out, int64_t to) {
  using Source = Pack<typename Element::Storage, kCount>;
  // Stores are of 16 bytes at most.
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

/// Elements that fill what one thread loads at best.
template <typename Element>
inline constexpr int kWide = kLoadBytes / sizeof(typename Element::Storage);

/// Calls `launch` with the element type, Float32{} for instance.
template <typename Launch>
cudaError_t ForElement(HearthCudaElement element, const Launch& launch) {
  switch (element) {
    case HEARTH_CUDA_FLOAT32:
      return launch(Float32{});
    case HEARTH_CUDA_FLOAT16:
      return launch(Float16{});
    case HEARTH_CUDA_BFLOAT16:
      return launch(BFloat16{});
  }
  return cudaErrorInvalidValue;
}

}  // namespace hearth::kernels

#endif  // HEARTH_KERNELS_CUDA_WIDEN_ROW_CUH_
