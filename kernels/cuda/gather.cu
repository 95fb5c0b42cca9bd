#include <algorithm>
#include <cstdint>

#include "kernels/cuda/gather.cuh"
#include "kernels/widen.h"

namespace hearth::kernels {
namespace {

constexpr int kThreadsPerBlock = 256;
constexpr int kWarp = 32;
constexpr int kRowsPerBlock = kThreadsPerBlock / kWarp;
// More blocks than any device runs at a time; the rest is done in turns.
constexpr int64_t kMaxBlocks = 1 << 16;
// What one thread loads at best.
constexpr int kLoadBytes = 16;

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

// A warp copies a row, `kCount` elements per thread and turn.
template <typename Element, int kCount>
__global__ void GatherKernel(HearthCudaGather gather) {
  using Source = Pack<typename Element::Storage, kCount>;
  // Stores are of 16 bytes at most.
  constexpr int kStored = kCount < 4 ? kCount : 4;
  using Target = Pack<float, kStored>;
  const int64_t packs = gather.dim / kCount;
  const int lane = threadIdx.x % kWarp;
  int64_t row = int64_t{blockIdx.x} * kRowsPerBlock + threadIdx.x / kWarp;
  for (; row < gather.count; row += int64_t{gridDim.x} * kRowsPerBlock) {
    const auto* from =
        static_cast<const Source*>(gather.source) + gather.indices[row] * packs;
    auto* to = reinterpret_cast<Target*>(gather.out + row * gather.dim);
    for (int64_t pack = lane; pack < packs; pack += kWarp) {
      const Source loaded = from[pack];
      for (int first = 0; first < kCount; first += kStored) {
        Target stored;
        for (int i = 0; i < kStored; ++i) {
          stored.values[i] = Element::Widen(loaded.values[first + i]);
        }
        to[(pack * kCount + first) / kStored] = stored;
      }
    }
  }
}

bool IsAligned(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % kLoadBytes == 0;
}

template <typename Element>
cudaError_t Launch(const HearthCudaGather& gather, cudaStream_t stream) {
  constexpr int kWide = kLoadBytes / sizeof(typename Element::Storage);
  const int64_t blocks = std::min<int64_t>(
      (gather.count + kRowsPerBlock - 1) / kRowsPerBlock, kMaxBlocks);
  const bool wide = gather.dim % kWide == 0 && IsAligned(gather.source) &&
                    IsAligned(gather.out);
  const auto kernel =
      wide ? GatherKernel<Element, kWide> : GatherKernel<Element, 1>;
  kernel<<<static_cast<unsigned>(blocks), kThreadsPerBlock, 0, stream>>>(
      gather);
  return cudaGetLastError();
}

}  // namespace

cudaError_t LaunchGather(const HearthCudaGather& gather, cudaStream_t stream) {
  if (gather.count < 0 || gather.dim < 0) return cudaErrorInvalidValue;
  if (gather.count == 0 || gather.dim == 0) return cudaSuccess;
  switch (gather.element) {
    case HEARTH_CUDA_FLOAT32:
      return Launch<Float32>(gather, stream);
    case HEARTH_CUDA_FLOAT16:
      return Launch<Float16>(gather, stream);
    case HEARTH_CUDA_BFLOAT16:
      return Launch<BFloat16>(gather, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace hearth::kernels
