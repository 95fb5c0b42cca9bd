#ifndef HEARTH_ENGINE_CUDA_FAKE_KERNELS_H_
#define HEARTH_ENGINE_CUDA_FAKE_KERNELS_H_

#include "engine/cuda/fake_memory.h"
#include "kernels/cuda/hearth_cuda.h"

namespace hearth::cuda {

/// The kernels of FakeCuda: those of the CPU, which touch nothing but what a
/// GPU may. False, with some of the work undone, where they were to.
bool RunGather(const FakeMemory& memory, const HearthCudaGather& gather);
bool RunScatter(const FakeMemory& memory, const HearthCudaScatter& scatter);

}  // namespace hearth::cuda

#endif  // HEARTH_ENGINE_CUDA_FAKE_KERNELS_H_
