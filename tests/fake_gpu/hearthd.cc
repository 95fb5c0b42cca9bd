// hearthd with an emulated GPU, for tests: FakeCuda, in the libhearth_cuda.so
// next to it, provides memory, streams and kernels, and the processor does
// LibTorch's operations. Everything else is the real daemon.

#include <memory>

#include "absl/status/status.h"
#include "engine/base/process.h"
#include "engine/model/step/new_train_step.h"
#include "engine/model/step/torch_step.h"
#include "engine/model/testing/fake_device.h"
#include "server/daemon.h"
#include "server/daemon_process.h"

namespace {

absl::StatusOr<std::unique_ptr<hearth::train::TrainStep>> NewFakeStep(
    const hearth::train::TrainOptions& options,
    const hearth::train::ModelShape& shape,
    const hearth::cuda::Device& device) {
  // Never destroyed: a GPU exists as long as the process runs.
  static auto* const fake = new hearth::model::FakeDevice(device);
  return hearth::model::NewDeviceStep(options, shape, fake->device(), device);
}

}  // namespace

int main(int argc, char** argv) {
  hearth::ShareOneHeap();
  hearth::model::InitializeTorch(argv);
  hearth::server::RunDaemonProcess(
      argc, argv,
      {.new_train_step = hearth::model::NewTrainStep,
       .new_gpu_step = NewFakeStep,
       .gpu_training = absl::OkStatus(),
       .torch_version = hearth::model::TorchVersion()});
}
