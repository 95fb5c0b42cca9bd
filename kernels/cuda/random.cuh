#ifndef HEARTH_KERNELS_CUDA_RANDOM_CUH_
#define HEARTH_KERNELS_CUDA_RANDOM_CUH_

#include <cuda_runtime.h>

#include <cstdint>

namespace hearth::kernels {

/// One block of Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy
/// as 1, 2, 3", SC 2011): replaces the counter in `words`.
__device__ inline void Philox(uint32_t (&words)[4], uint32_t key0,
                              uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53u} * words[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57u} * words[2];
    words[0] = static_cast<uint32_t>(product1 >> 32) ^ words[1] ^ key0;
    words[1] = static_cast<uint32_t>(product1);
    words[2] = static_cast<uint32_t>(product0 >> 32) ^ words[3] ^ key1;
    words[3] = static_cast<uint32_t>(product0);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
}

/// The finalizer of SplitMix64 after its increment (Steele et al., "Fast
/// Splittable Pseudorandom Number Generators", OOPSLA 2014).
__device__ inline uint64_t Mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

/// Random numbers of the stream `x` under a key, as HearthCudaSampleLayer
/// defines them: the same as the CPU's RandomStream.
class RandomWords {
 public:
  __device__ RandomWords(const uint32_t (&key)[2], uint64_t x)
      : key_{key[0], key[1]},
        counter_{0, static_cast<uint32_t>(x), static_cast<uint32_t>(x >> 32),
                 static_cast<uint32_t>(Mix(x))} {}

  /// The next 32 bits.
  __device__ uint32_t Next() {
    if (used_ == 4) {
      for (int i = 0; i < 4; ++i) block_[i] = counter_[i];
      Philox(block_, key_[0], key_[1]);
      ++counter_[0];
      used_ = 0;
    }
    return block_[used_++];
  }

  /// Uniform in [0, bound), without bias (Lemire's multiplication with
  /// rejection). REQUIRES: bound > 0.
  __device__ uint64_t Below(uint64_t bound) {
    if (bound <= UINT32_MAX) return BelowSmall(static_cast<uint32_t>(bound));
    const uint64_t threshold = (0 - bound) % bound;
    while (true) {
      const uint64_t low = Next();
      const uint64_t bits = low | uint64_t{Next()} << 32;
      const auto product = static_cast<unsigned __int128>(bits) * bound;
      if (static_cast<uint64_t>(product) >= threshold) {
        return static_cast<uint64_t>(product >> 64);
      }
    }
  }

 private:
  __device__ uint64_t BelowSmall(uint32_t bound) {
    uint64_t product = uint64_t{Next()} * bound;
    if (static_cast<uint32_t>(product) < bound) {
      const uint32_t threshold = (0 - bound) % bound;
      while (static_cast<uint32_t>(product) < threshold) {
        product = uint64_t{Next()} * bound;
      }
    }
    return product >> 32;
  }

  const uint32_t key_[2];
  uint32_t counter_[4];
  uint32_t block_[4];
  int used_ = 4;
};

}  // namespace hearth::kernels

#endif  // HEARTH_KERNELS_CUDA_RANDOM_CUH_
