#ifndef HEARTH_KERNELS_CUDA_PHILOX_CUH_
#define HEARTH_KERNELS_CUDA_PHILOX_CUH_

#include <cuda_runtime.h>

#include <cstdint>

namespace hearth::kernels {

/// One block of Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy
/// as 1, 2, 3", SC 2011): takes the place of the counter in `words`.
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

}  // namespace hearth::kernels

#endif  // HEARTH_KERNELS_CUDA_PHILOX_CUH_
