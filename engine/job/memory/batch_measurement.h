#ifndef HEARTH_ENGINE_JOB_MEMORY_BATCH_MEASUREMENT_H_
#define HEARTH_ENGINE_JOB_MEMORY_BATCH_MEASUREMENT_H_

#include <atomic>
#include <cstdint>
#include <stop_token>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/store/dataset.h"
#include "engine/store/labels.h"
#include "engine/strategy/pass.h"
#include "engine/strategy/strategy.h"

namespace hearth::job {

/// The passes whose batches are measured.
struct MeasuredPasses {
  const store::Dataset& dataset;
  const store::Labels& labels;
  /// Passes of one job: equal samplers, batch sizes and shards.
  absl::Span<const strategy::Pass> passes;
};

/// Bounds the batches of all of `passes` by the fan-outs, without sampling:
/// `largest` and `likely` equal `bound`.
strategy::BatchBound BoundBatches(const MeasuredPasses& of);

/// Bounds batches by a dry run of sampling over the mapped topology, or slab by
/// slab where the job samples so. Keeps each
/// result as a file in `folder`, named by the dataset's fingerprint and a hash
/// of everything it depends on, and finds it there the next time; a damaged
/// file is replaced. Thread-safe.
class BatchMeasurement {
 public:
  /// All arguments outlive this.
  BatchMeasurement(io::FileSystem& files, const Clock& clock,
                   std::string folder);

  /// `pipeline` is the job's: the result does not depend on it.
  absl::StatusOr<strategy::BatchBound> Measure(
      const MeasuredPasses& of, const strategy::PipelineOptions& pipeline,
      std::stop_token stop) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Status MeasureMapped(const MeasuredPasses& of, int threads,
                             const std::stop_token& stop,
                             strategy::BatchBound& result) const;
  absl::Status MeasureInSlabs(const MeasuredPasses& of, int threads,
                              const std::stop_token& stop,
                              strategy::BatchBound& result);
  absl::Status Write(const std::string& path, const std::string& text)
      ABSL_LOCKS_EXCLUDED(mutex_);

  io::FileSystem& files_;
  const Clock& clock_;
  const std::string folder_;
  // Number of the next scratch folder.
  std::atomic<uint64_t> next_scratch_ = 0;
  // Held while a file is written: two jobs may write the same one.
  absl::Mutex mutex_;
};

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_MEMORY_BATCH_MEASUREMENT_H_
