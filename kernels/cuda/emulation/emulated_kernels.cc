#include "kernels/cuda/emulation/emulated_kernels.h"

#include "kernels/cuda/activation.cu"
#include "kernels/cuda/edges.cu"
#include "kernels/cuda/sample.cu"

namespace hearth::kernels {

int EmulateSum(const HearthCudaSum& sum) { return LaunchSum(sum, nullptr); }

int EmulateDots(const HearthCudaDots& dots) {
  return LaunchDots(dots, nullptr);
}

int EmulateScores(const HearthCudaScores& scores) {
  return LaunchScores(scores, nullptr);
}

int EmulateSoftmax(const HearthCudaSoftmax& softmax) {
  return LaunchSoftmax(softmax, nullptr);
}

int EmulateSoftmaxGradient(const HearthCudaSoftmax& softmax) {
  return LaunchSoftmaxGradient(softmax, nullptr);
}

int EmulateScoreGradient(const HearthCudaScoreGradient& gradient) {
  return LaunchScoreGradient(gradient, nullptr);
}

int EmulateActivate(const HearthCudaActivate& activate) {
  return LaunchActivate(activate, nullptr);
}

int EmulateActivationGradient(const HearthCudaActivate& activate) {
  return LaunchActivationGradient(activate, nullptr);
}

int EmulateFillTable(const HearthCudaFillTable& fill) {
  return LaunchFillTable(fill, nullptr);
}

int EmulateLookUp(const HearthCudaLookUp& look_up) {
  return LaunchLookUp(look_up, nullptr);
}

int EmulateCountEdges(const HearthCudaCountEdges& count) {
  return LaunchCountEdges(count, nullptr);
}

int EmulateSampleLayer(const HearthCudaSampleLayer& layer) {
  return LaunchSampleLayer(layer, nullptr);
}

}  // namespace hearth::kernels
