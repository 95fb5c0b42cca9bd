#ifndef HEARTH_ENGINE_JOB_TRAIN_METRICS_H_
#define HEARTH_ENGINE_JOB_TRAIN_METRICS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "engine/job/report.h"
#include "engine/metrics/registry.h"
#include "engine/pipeline/pipeline.h"

namespace hearth::job {

/// The time series of one train job, labelled by job and strategy; they exist
/// until this is destroyed, which whoever made it does some time after the job
/// has ended. Thread-safe.
class TrainMetrics {
 public:
  virtual ~TrainMetrics() = default;

  /// A training batch is done.
  virtual void OnBatch(double loss) = 0;

  /// An epoch is done, its validation included.
  virtual void OnEpoch(const EpochReport& epoch) = 0;

  /// The stages' times so far in this pass; differences to the last call of
  /// the same pass are added. `new_pass` starts from zero.
  virtual void OnStages(const std::vector<pipeline::StageStats>& stages,
                        bool new_pass) = 0;

  /// Feature rows and bytes that batches needed.
  virtual void OnRows(int64_t rows, int64_t bytes) = 0;
};

/// `registry` must outlive the result.
std::unique_ptr<TrainMetrics> NewTrainMetrics(metrics::Registry& registry,
                                              const std::string& job,
                                              const std::string& strategy);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_TRAIN_METRICS_H_
