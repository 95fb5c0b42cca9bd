#ifndef HEARTH_SERVER_DAEMON_H_
#define HEARTH_SERVER_DAEMON_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/cuda/device.h"
#include "engine/io/file_system.h"
#include "engine/job/interface/job_environment.h"
#include "engine/train/model_options.h"
#include "engine/train/train_step.h"
#include "server/config.h"
#include "server/jobs/job_runner.h"

namespace hearth::server {

/// Source of models: model::NewTrainStep in hearthd; models without torch in
/// tests.
struct ModelSource {
  job::TrainStepFactory new_train_step;
  /// Makes a model on a GPU of the plug-in: model::NewGpuStep. Null: there are
  /// no models on GPUs.
  std::function<absl::StatusOr<std::unique_ptr<train::TrainStep>>(
      const train::TrainOptions& options, const train::ModelShape& shape,
      const cuda::Device& device)>
      new_gpu_step = nullptr;
  /// Whether new_gpu_step can make models: model::GpuTraining.
  absl::Status gpu_training =
      absl::FailedPreconditionError("there are no models for GPUs");
  /// Version of torch, for display; may be empty.
  std::string torch_version;
  /// Makes a model whose steps are those of several machines:
  /// model::NewRankedStep. Null: no job is on several.
  RankedStepFactory new_ranked_step = nullptr;
  /// model::ArithmeticName.
  std::string arithmetic = {};
};

/// Whole daemon: hearthd without its command line and signals. Thread-safe.
class Daemon {
 public:
  /// Takes the data directory, puts interrupted jobs back into the queue,
  /// listens, and begins to run jobs. UNAVAILABLE if the data directory or an
  /// address is in use. Jobs and data directory are reached through `files`,
  /// which must outlive the daemon.
  static absl::StatusOr<std::unique_ptr<Daemon>> Start(
      const Config& config, ModelSource models,
      io::FileSystem& files = io::FileSystem::Posix());

  /// Stops and waits for jobs without a time limit.
  virtual ~Daemon() = default;

  /// "127.0.0.1:7600", with the port in use; without TCP address,
  /// socket_address().
  virtual const std::string& grpc_address() const = 0;
  /// "unix:PATH"; empty = there is no socket, since its path would be too long,
  /// but a TCP address.
  virtual const std::string& socket_address() const = 0;
  /// Such as "127.0.0.1:9600", with the port in use; empty = no metrics.
  virtual const std::string& metrics_address() const = 0;

  /// Returns once the scheduler's lock is free; blocks while the daemon hangs.
  /// For watchdogs.
  virtual void CheckAlive() = 0;

  /// Refuses new work, stops running jobs at a checkpoint, ends watches and
  /// calls, and stops gRPC; the destructor stops metrics. DEADLINE_EXCEEDED,
  /// naming the jobs that did not stop within `patience`: the destructor would
  /// wait for them, so the process should be killed, which loses their work
  /// since their last checkpoint.
  virtual absl::Status Stop(absl::Duration patience) = 0;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_DAEMON_H_
