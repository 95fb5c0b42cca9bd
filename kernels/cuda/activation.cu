#include <cstdint>

#include "kernels/cuda/kernels.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/random.cuh"

namespace hearth::kernels {
namespace {

constexpr int64_t kTile = 64;
// Blocks of random words in a tile, each of which decides on four elements.
constexpr int64_t kBlocksPerTile = 16;

constexpr int64_t NumBlocks(int64_t count) {
  return (count + kTile - 1) / kTile * kBlocksPerTile;
}

// Calls `function(index, kept)` for the elements of one block of random words.
template <typename F>
__device__ void ForBlock(const HearthCudaActivate& activate, int64_t block,
                         const F& function) {
  const HearthCudaActivation& activation = activate.activation;
  uint32_t words[4] = {static_cast<uint32_t>(block),
                       static_cast<uint32_t>(block >> 32), activation.nonce[0],
                       activation.nonce[1]};
  if (activation.threshold != 0) {
    Philox(words, activation.key[0], activation.key[1]);
  }
  const int64_t first = block / kBlocksPerTile * kTile + block % kBlocksPerTile;
  for (int j = 0; j < 4; ++j) {
    const int64_t index = first + j * kBlocksPerTile;
    if (index < activate.count) {
      function(index, words[j] >= activation.threshold);
    }
  }
}

// x times the slope; for ReLU's slope, 0, zero whatever x is.
__device__ inline float Fallen(float x, float slope) {
  return slope == 0 ? 0 : x * slope;
}

// A thread takes the elements of a block of random words.
__global__ void ActivateKernel(HearthCudaActivate activate) {
  const float slope = activate.activation.slope;
  const float scale = activate.activation.scale;
  for (int64_t block = FirstItem(); block < NumBlocks(activate.count);
       block += ItemStride()) {
    ForBlock(activate, block, [&](int64_t index, bool kept) {
      const float x = activate.output[index];
      activate.output[index] =
          kept ? (x <= 0 ? Fallen(x, slope) : x) * scale : 0;
    });
  }
}

// A thread takes the elements of a block of random words.
__global__ void GradientKernel(HearthCudaActivate activate) {
  const float slope = activate.activation.slope;
  const float scale = activate.activation.scale;
  for (int64_t block = FirstItem(); block < NumBlocks(activate.count);
       block += ItemStride()) {
    ForBlock(activate, block, [&](int64_t index, bool kept) {
      const float y = activate.output[index];
      const float gradient = activate.gradient[index] * scale;
      activate.result[index] =
          kept ? (y <= 0 ? Fallen(gradient, slope) : gradient) : 0;
    });
  }
}

cudaError_t LaunchOf(void (*kernel)(HearthCudaActivate),
                     const HearthCudaActivate& activate, cudaStream_t stream) {
  if (activate.count < 0) return cudaErrorInvalidValue;
  if (activate.count == 0) return cudaSuccess;
  return LaunchItems(kernel, NumBlocks(activate.count), activate, stream);
}

}  // namespace

cudaError_t LaunchActivate(const HearthCudaActivate& activate,
                           cudaStream_t stream) {
  return LaunchOf(ActivateKernel, activate, stream);
}

cudaError_t LaunchActivationGradient(const HearthCudaActivate& activate,
                                     cudaStream_t stream) {
  return LaunchOf(GradientKernel, activate, stream);
}

}  // namespace hearth::kernels
