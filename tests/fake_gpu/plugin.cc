// GPU plug-in with one emulated GPU.

#include "engine/cuda/testing/fake_cuda.h"
#include "kernels/cuda/hearth_cuda.h"

extern "C" __attribute__((visibility("default"))) const HearthCudaTable*
hearth_cuda_table(uint32_t version) {
  // Never destroyed: the process ends without waiting for the GPU's work.
  static const auto* const fake = new hearth::cuda::FakeCuda;
  return version == HEARTH_CUDA_VERSION ? fake->device().table : nullptr;
}
