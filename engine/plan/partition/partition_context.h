#ifndef HEARTH_ENGINE_PLAN_PARTITION_PARTITION_CONTEXT_H_
#define HEARTH_ENGINE_PLAN_PARTITION_PARTITION_CONTEXT_H_

#include <algorithm>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "engine/io/file_system.h"
#include "engine/plan/partition/node_arrays.h"
#include "engine/plan/partition/partition_options.h"
#include "engine/store/dataset.h"

namespace hearth::plan {

/// Inputs of all stages of making a partition. They must outlive it.
struct PartitionContext {
  /// Upper bound of the threads, for which PartitionMemory holds.
  static constexpr int kMaxThreads = 64;

  io::FileSystem& files;
  const store::Dataset& dataset;
  const PartitionOptions& options;
  const PartitionRun& run;
  const PartitionShape& shape;
  const NodeSet& training_nodes;

  int threads() const { return std::clamp(run.threads, 1, kMaxThreads); }
  int id_bytes() const { return IdBytes(shape.nodes); }
};

/// Reports the progress of a stage, every few MiB. Thread-safe.
class StageProgress {
 public:
  /// Reports the beginning of the stage. `run` and `stage` must outlive the
  /// object.
  StageProgress(const PartitionRun& run, absl::string_view stage,
                uint64_t total_bytes)
      : run_(run), progress_{stage, 0, total_bytes} {
    Report();
  }

  void Advance(uint64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    progress_.done_bytes =
        std::min(progress_.done_bytes + bytes, progress_.total_bytes);
    if (progress_.done_bytes - reported_bytes_ >= kStepBytes ||
        progress_.done_bytes == progress_.total_bytes) {
      Report();
    }
  }

 private:
  static constexpr uint64_t kStepBytes = 8 << 20;

  void Report() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (progress_.done_bytes == reported_bytes_ && reported_bytes_ > 0) return;
    reported_bytes_ = progress_.done_bytes;
    if (run_.progress) run_.progress(progress_);
  }

  const PartitionRun& run_;
  absl::Mutex mutex_;
  PartitionProgress progress_ ABSL_GUARDED_BY(mutex_);
  uint64_t reported_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_PARTITION_PARTITION_CONTEXT_H_
