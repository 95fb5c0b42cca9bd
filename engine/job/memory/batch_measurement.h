#ifndef HEARTH_ENGINE_JOB_MEMORY_BATCH_MEASUREMENT_H_
#define HEARTH_ENGINE_JOB_MEMORY_BATCH_MEASUREMENT_H_

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

/// How large the batches of all of `passes` are at most, without looking at
/// any: `largest` and `likely` are `bound`, which follows from the fan-outs.
strategy::BatchBound BoundBatches(const MeasuredPasses& of);

/// The same by a dry run of sampling, over the mapped topology. What it finds
/// is kept as a file in `folder`, named by the dataset's fingerprint and a hash
/// of all that it depends on, and found there the next time; a damaged file is
/// replaced. CANCELLED if `stop` is requested; otherwise errors of reading the
/// dataset, and of writing the file. Thread-safe.
class BatchMeasurement {
 public:
  /// All must outlive it.
  BatchMeasurement(io::FileSystem& files, const Clock& clock,
                   std::string folder);

  absl::StatusOr<strategy::BatchBound> Measure(const MeasuredPasses& of,
                                               int threads,
                                               std::stop_token stop)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Status Write(const std::string& path, const std::string& text)
      ABSL_LOCKS_EXCLUDED(mutex_);

  io::FileSystem& files_;
  const Clock& clock_;
  const std::string folder_;
  // Held while a file is written, which two jobs may be about to do.
  absl::Mutex mutex_;
};

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_MEMORY_BATCH_MEASUREMENT_H_
