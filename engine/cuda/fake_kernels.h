#ifndef HEARTH_ENGINE_CUDA_FAKE_KERNELS_H_
#define HEARTH_ENGINE_CUDA_FAKE_KERNELS_H_

#include "engine/cuda/fake_memory.h"
#include "kernels/cuda/hearth_cuda.h"

namespace hearth::cuda {

/// The kernels of FakeCuda: those of the CPU, which touch nothing but what a
/// GPU may. False, with some of the work undone, where they were to.
bool RunGather(const FakeMemory& memory, const HearthCudaGather& gather);
bool RunScatter(const FakeMemory& memory, const HearthCudaScatter& scatter);

/// Those that models use: a GPU's own, emulated.
bool RunSum(const FakeMemory& memory, HearthCudaSum sum);
bool RunDots(const FakeMemory& memory, HearthCudaDots dots);
bool RunScores(const FakeMemory& memory, HearthCudaScores scores);
bool RunSoftmax(const FakeMemory& memory, HearthCudaSoftmax softmax);
bool RunSoftmaxGradient(const FakeMemory& memory, HearthCudaSoftmax softmax);
bool RunScoreGradient(const FakeMemory& memory,
                      HearthCudaScoreGradient gradient);
bool RunActivate(const FakeMemory& memory, HearthCudaActivate activate);
bool RunActivationGradient(const FakeMemory& memory,
                           HearthCudaActivate activate);

/// Those that sample batches, likewise.
bool RunFillTable(const FakeMemory& memory, HearthCudaFillTable fill);
bool RunLookUp(const FakeMemory& memory, HearthCudaLookUp look_up);
bool RunCountEdges(const FakeMemory& memory, HearthCudaCountEdges count);
bool RunSampleLayer(const FakeMemory& memory, HearthCudaSampleLayer layer);

}  // namespace hearth::cuda

#endif  // HEARTH_ENGINE_CUDA_FAKE_KERNELS_H_
