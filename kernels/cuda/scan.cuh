#ifndef HEARTH_KERNELS_CUDA_SCAN_CUH_
#define HEARTH_KERNELS_CUDA_SCAN_CUH_

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/launch.cuh"

/// Exclusive prefix sums: replaces each number by the sum of the numbers before
/// it, in chunks:
///
///  1. a thread adds up each chunk;
///  2. the chunks' sums are replaced by their prefix sums;
///  3. a thread replaces the numbers of each chunk, from its sum on.

namespace hearth::kernels {

/// Numbers of a chunk.
inline constexpr int64_t kScanChunk = 64;

template <typename T>
struct ScanPart {
  T* values;
  int64_t count;
  // The sum before each chunk; null: there is one chunk, which begins at 0.
  T* sums;
};

template <typename T>
__device__ int64_t NumChunks(const ScanPart<T>& part) {
  return (part.count + kScanChunk - 1) / kScanChunk;
}

template <typename T>
__global__ void SumChunksKernel(ScanPart<T> part) {
  for (int64_t chunk = FirstItem(); chunk < NumChunks(part);
       chunk += ItemStride()) {
    const int64_t first = chunk * kScanChunk;
    const int64_t end = std::min(part.count, first + kScanChunk);
    T sum = 0;
    for (int64_t i = first; i < end; ++i) sum += part.values[i];
    part.sums[chunk] = sum;
  }
}

template <typename T>
__global__ void ReplaceKernel(ScanPart<T> part) {
  for (int64_t chunk = FirstItem(); chunk < NumChunks(part);
       chunk += ItemStride()) {
    const int64_t first = chunk * kScanChunk;
    const int64_t end = std::min(part.count, first + kScanChunk);
    T sum = part.sums == nullptr ? 0 : part.sums[chunk];
    for (int64_t i = first; i < end; ++i) {
      const T value = part.values[i];
      part.values[i] = sum;
      sum += value;
    }
  }
}

/// Queues the scan of `count` numbers. REQUIRES: count > 0, and
/// HEARTH_CUDA_SCAN_SCRATCH(count) elements at `scratch`.
template <typename T>
cudaError_t LaunchScan(T* values, int64_t count, T* scratch,
                       cudaStream_t stream) {
  ScanPart<T> part = {values, count, nullptr};
  const int64_t chunks = (count + kScanChunk - 1) / kScanChunk;
  if (chunks > 1) {
    part.sums = scratch;
    cudaError_t error = LaunchItems(SumChunksKernel<T>, chunks, part, stream);
    if (error == cudaSuccess) {
      error = LaunchScan(scratch, chunks, scratch + chunks, stream);
    }
    if (error != cudaSuccess) return error;
  }
  return LaunchItems(ReplaceKernel<T>, chunks, part, stream);
}

}  // namespace hearth::kernels

#endif  // HEARTH_KERNELS_CUDA_SCAN_CUH_
