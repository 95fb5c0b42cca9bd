#ifndef HEARTH_ENGINE_JOB_CHECKPOINT_CHECKPOINT_H_
#define HEARTH_ENGINE_JOB_CHECKPOINT_CHECKPOINT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/sha256.h"
#include "engine/io/file_system.h"
#include "engine/job/interface/report.h"
#include "engine/store/safetensors.h"
#include "engine/strategy/strategy.h"

namespace hearth::job {

/// State of a train job at a batch boundary: enough to continue as if nothing
/// had happened. A batch whose loss is in `losses` is never trained again. The
/// size does not grow with the number of epochs and batches done.
struct Checkpoint {
  /// Number within the job, from 1; 0 = not written yet, or of a version
  /// without numbers.
  uint64_t generation = 0;
  /// Fingerprint of the dataset; empty = unknown, in a checkpoint of version 3.
  std::string fingerprint;
  /// Arithmetic of the batches so far: version and precision of
  /// train::TrainStep; empty in checkpoints of older programs.
  std::string arithmetic;
  /// Epoch to continue with, from 0, and its next batch.
  int64_t epoch = 0;
  int64_t next_batch = 0;
  /// Digest of the losses of all training batches so far, as little-endian
  /// float32, in order.
  Sha256 losses;
  /// Sum of loss times seeds in the unfinished epoch, and its seeds so far.
  double epoch_loss_sum = 0;
  int64_t epoch_seeds = 0;
  /// Report of the unfinished epoch's training so far.
  strategy::PassReport epoch_training;
  /// Report of the last finished epoch, which the observer may not have kept.
  std::optional<EpochReport> last_epoch;
  /// Early stopping: the best epoch, from 1 (0 = none), and its validation
  /// metric.
  uint32_t best_epoch = 0;
  std::optional<double> best_metric;
  /// Model and optimizer now, and at the best epoch if early stopping keeps it.
  store::TensorMap state;
  store::TensorMap best_state;
  /// Embeddings of the unfinished epoch's batches that later batches may use,
  /// and gradients of embeddings (train::HistoryCache); between epochs only
  /// gradients. WriteCheckpoint empties it.
  store::TensorMap histories;
  /// Numbers of machines that trained the job, the first one from its first
  /// batch on; empty: always one.
  std::vector<MachineChange> machines;
  uint64_t peak_memory_bytes = 0;
  uint32_t resumes = 0;
};

/// The result of FindCheckpoint.
struct FoundCheckpoint {
  /// The newest undamaged checkpoint, without its tensors; nullopt if there is
  /// none.
  std::optional<Checkpoint> checkpoint;
  /// Faults of damaged checkpoints, each text naming its file.
  std::vector<std::string> damages;
};

/// Writes the next generation durably, in place of the one before the last; the
/// last one stays until the next call. Numbers `checkpoint` on success, and
/// empties its state and histories in any case, so that memory holds them once.
absl::Status WriteCheckpoint(io::FileSystem& files,
                             const std::string& directory,
                             Checkpoint& checkpoint);

/// Finds the newest undamaged generation in `directory`, for a job on the
/// dataset with this fingerprint. Reads all of it, 1 MiB at a time, and leaves
/// the tensors to ReadTensors, for which memory has to be reserved.
/// FAILED_PRECONDITION, naming the file, if it is of an unknown version, or of
/// another dataset.
absl::StatusOr<FoundCheckpoint> FindCheckpoint(io::FileSystem& files,
                                               const std::string& directory,
                                               const std::string& fingerprint);

/// Name of the file, in a job's directory, that holds `checkpoint`.
std::string CheckpointFileName(const Checkpoint& checkpoint);

/// Reads the tensors of `checkpoint`, which FindCheckpoint found in
/// `directory`. DATA_LOSS, naming the file, if it has changed since then.
absl::Status ReadTensors(io::FileSystem& files, const std::string& directory,
                         Checkpoint& checkpoint);

/// Removes all generations in `directory`.
absl::Status RemoveCheckpoints(io::FileSystem& files,
                               const std::string& directory);

/// FAILED_PRECONDITION if FindCheckpoint would give that. Reads no tensors.
absl::Status CheckCheckpoint(io::FileSystem& files,
                             const std::string& directory,
                             const std::string& fingerprint);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_CHECKPOINT_CHECKPOINT_H_
