#ifndef HEARTH_KERNELS_CUDA_LAUNCH_CUH_
#define HEARTH_KERNELS_CUDA_LAUNCH_CUH_

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

/// How work is laid out over threads: a warp takes a row, or a thread an item,
/// and both go on to the next one in turns.

namespace hearth::kernels {

inline constexpr int kThreadsPerBlock = 256;
inline constexpr int kWarp = 32;
inline constexpr int kRowsPerBlock = kThreadsPerBlock / kWarp;
// More blocks than any device runs at a time; the rest is done in turns.
inline constexpr int64_t kMaxBlocks = 1 << 16;
// The widest load of one thread, in bytes.
inline constexpr int kLoadBytes = 16;

/// Queues a kernel for `items`, of which a block takes `items_per_block` at a
/// time. REQUIRES: items > 0.
template <typename Argument>
cudaError_t Launch(void (*kernel)(Argument), int64_t items, int items_per_block,
                   const Argument& argument, cudaStream_t stream) {
  cudaLaunchConfig_t config = {};
  config.gridDim.x = static_cast<unsigned>(
      std::min((items + items_per_block - 1) / items_per_block, kMaxBlocks));
  config.blockDim.x = kThreadsPerBlock;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, argument);
}

/// Queues a kernel with a warp for each row, as far as blocks go.
template <typename Argument>
cudaError_t LaunchRows(void (*kernel)(Argument), int64_t rows,
                       const Argument& argument, cudaStream_t stream) {
  return Launch(kernel, rows, kRowsPerBlock, argument, stream);
}

/// Queues a kernel with a thread for each item, as far as blocks go.
template <typename Argument>
cudaError_t LaunchItems(void (*kernel)(Argument), int64_t items,
                        const Argument& argument, cudaStream_t stream) {
  return Launch(kernel, items, kThreadsPerBlock, argument, stream);
}

/// Number of this thread's warp, and of all warps.
__device__ inline int64_t FirstRow() {
  return int64_t{blockIdx.x} * kRowsPerBlock + threadIdx.x / kWarp;
}
__device__ inline int64_t RowStride() {
  return int64_t{gridDim.x} * kRowsPerBlock;
}

/// Number of this thread in its warp.
__device__ inline int Lane() { return static_cast<int>(threadIdx.x % kWarp); }

/// Number of this thread, and of all threads.
__device__ inline int64_t FirstItem() {
  return int64_t{blockIdx.x} * kThreadsPerBlock + threadIdx.x;
}
__device__ inline int64_t ItemStride() {
  return int64_t{gridDim.x} * kThreadsPerBlock;
}

// `kCount` elements that are loaded or stored at once.
template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T values[kCount];
};

inline bool IsAligned(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % kLoadBytes == 0;
}

}  // namespace hearth::kernels

#endif  // HEARTH_KERNELS_CUDA_LAUNCH_CUH_
