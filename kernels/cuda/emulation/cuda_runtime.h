#ifndef HEARTH_KERNELS_CUDA_EMULATION_CUDA_RUNTIME_H_
#define HEARTH_KERNELS_CUDA_EMULATION_CUDA_RUNTIME_H_

/// Replaces CUDA's header in the emulation, so that a host compiler can build
/// the kernels of this folder and run them, one device thread after the other.
/// Valid for kernels whose threads do not wait for each other: other kernels do
/// not compile with it.

#define __global__
#define __device__

struct dim3 {
  unsigned x = 1;
};

// The coordinates of the device thread that is being run.
inline thread_local dim3 gridDim;
inline thread_local dim3 blockIdx;
inline thread_local dim3 threadIdx;

enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1 };
using cudaStream_t = void*;

// Atomic functions: device threads run one after another.
template <typename T>
T atomicMin(T* address, T value) {
  const T old = *address;
  if (value < old) *address = value;
  return old;
}

template <typename T>
T atomicCAS(T* address, T expected, T value) {
  const T old = *address;
  if (old == expected) *address = value;
  return old;
}

struct cudaLaunchConfig_t {
  dim3 gridDim;
  dim3 blockDim;
  cudaStream_t stream = nullptr;
};

template <typename Argument>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config,
                               void (*kernel)(Argument),
                               const Argument& argument) {
  gridDim = config->gridDim;
  for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {
    for (threadIdx.x = 0; threadIdx.x < config->blockDim.x; ++threadIdx.x) {
      kernel(argument);
    }
  }
  return cudaSuccess;
}

#endif  // HEARTH_KERNELS_CUDA_EMULATION_CUDA_RUNTIME_H_
