#ifndef HEARTH_ENGINE_JOB_CHECKPOINT_H_
#define HEARTH_ENGINE_JOB_CHECKPOINT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/io/file_system.h"
#include "engine/job/report.h"
#include "engine/store/safetensors.h"

namespace hearth::job {

/// The state of a train job at a batch boundary: enough to go on as if nothing
/// had happened. A batch whose loss is in `losses` is never trained again.
struct Checkpoint {
  /// The epoch to go on with, from 0, and its next batch.
  int64_t epoch = 0;
  int64_t next_batch = 0;
  /// Losses of all training batches so far, in order.
  std::vector<float> losses;
  /// The unfinished epoch's sum of loss times seeds, and its seeds so far.
  double epoch_loss_sum = 0;
  int64_t epoch_seeds = 0;
  /// Cost of the unfinished epoch's training so far.
  strategy::PassReport epoch_training;
  /// The finished epochs.
  std::vector<EpochReport> epochs;
  /// Early stopping: the best epoch, from 1 (0 = none), and its validation
  /// metric.
  uint32_t best_epoch = 0;
  std::optional<double> best_metric;
  /// Model and optimizer now; and at the best epoch, if early stopping keeps
  /// it.
  store::TensorMap state;
  store::TensorMap best_state;
  uint64_t peak_memory_bytes = 0;
  uint32_t resumes = 0;
};

/// Replaces the checkpoint in `directory`, atomically and durably.
absl::Status WriteCheckpoint(io::FileSystem& files,
                             const std::string& directory,
                             const Checkpoint& checkpoint);

/// The checkpoint in `directory`; nullopt if there is none. DATA_LOSS naming
/// the file if it is damaged.
absl::StatusOr<std::optional<Checkpoint>> ReadCheckpoint(
    io::FileSystem& files, const std::string& directory);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_CHECKPOINT_H_
