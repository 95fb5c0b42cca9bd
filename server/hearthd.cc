// hearthd, the daemon. Models and server meet here: the rest of the server is
// built and tested without torch.

#include "engine/base/process.h"
#include "engine/model/step/new_train_step.h"
#include "server/daemon.h"
#include "server/daemon_process.h"

int main(int argc, char** argv) {
  hearth::ShareOneHeap();
  hearth::model::InitializeTorch(argv);
  hearth::server::RunDaemonProcess(
      argc, argv,
      {.new_train_step = hearth::model::NewTrainStep,
       .new_gpu_step = hearth::model::NewGpuStep,
       .gpu_training = hearth::model::GpuTraining(),
       .torch_version = hearth::model::TorchVersion(),
       .new_ranked_step = hearth::model::NewRankedStep,
       .arithmetic = hearth::model::ArithmeticName()});
}
