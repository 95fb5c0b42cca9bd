#ifndef HEARTH_KERNELS_CUDA_WIDEN_ROW_CUH_
#define HEARTH_KERNELS_CUDA_WIDEN_ROW_CUH_

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/hearth_cuda.h"
#include "kernels/widen.h"

/// Code shared by the kernels that move rows: a warp copies a row.

namespace hearth::kernels {

inline constexpr int kThreadsPerBlock = 256;
inline constexpr int kWarp = 32;
inline constexpr int kRowsPerBlock = kThreadsPerBlock / kWarp;
// More blocks than any device runs at a time; the rest is done in turns.
inline constexpr int64_t kMaxBlocks = 1 << 16;
// The widest load of one thread, in bytes.
inline constexpr int kLoadBytes = 16;

/// Queues a kernel with a warp for each row, as far as blocks go.
template <typename Argument>
cudaError_t LaunchRows(void (*kernel)(Argument), int64_t rows,
                       const Argument& argument, cudaStream_t stream) {
  cudaLaunchConfig_t config = {};
  config.gridDim.x = static_cast<unsigned>(
      std::min((rows + kRowsPerBlock - 1) / kRowsPerBlock, kMaxBlocks));
  config.blockDim.x = kThreadsPerBlock;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, argument);
}

/// This thread's warp among all, and how many of them there are.
__device__ inline int64_t FirstRow() {
  return int64_t{blockIdx.x} * kRowsPerBlock + threadIdx.x / kWarp;
}
__device__ inline int64_t RowStride() {
  return int64_t{gridDim.x} * kRowsPerBlock;
}

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

// `kCount` elements that are loaded or stored at once.
template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T values[kCount];
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
  for (int64_t pack = threadIdx.x % kWarp; pack < packs; pack += kWarp) {
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

inline bool IsAligned(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % kLoadBytes == 0;
}

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
