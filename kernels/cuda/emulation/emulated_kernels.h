#ifndef HEARTH_KERNELS_CUDA_EMULATION_EMULATED_KERNELS_H_
#define HEARTH_KERNELS_CUDA_EMULATION_EMULATED_KERNELS_H_

#include "kernels/cuda/hearth_cuda.h"

/// Kernels for GPUs, built for the CPU and run by the calling thread on host
/// memory, for tests. Each returns the result of its Launch function.

namespace hearth::kernels {

int EmulateSum(const HearthCudaSum& sum);
int EmulateDots(const HearthCudaDots& dots);
int EmulateScores(const HearthCudaScores& scores);
int EmulateSoftmax(const HearthCudaSoftmax& softmax);
int EmulateSoftmaxGradient(const HearthCudaSoftmax& softmax);
int EmulateScoreGradient(const HearthCudaScoreGradient& gradient);
int EmulateActivate(const HearthCudaActivate& activate);
int EmulateActivationGradient(const HearthCudaActivate& activate);
int EmulateFillTable(const HearthCudaFillTable& fill);
int EmulateLookUp(const HearthCudaLookUp& look_up);
int EmulateCountEdges(const HearthCudaCountEdges& count);
int EmulateSampleLayer(const HearthCudaSampleLayer& layer);

}  // namespace hearth::kernels

#endif  // HEARTH_KERNELS_CUDA_EMULATION_EMULATED_KERNELS_H_
