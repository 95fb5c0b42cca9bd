#ifndef HEARTH_ENGINE_JOB_INTERFACE_TRAIN_METRICS_H_
#define HEARTH_ENGINE_JOB_INTERFACE_TRAIN_METRICS_H_

#include <memory>
#include <string>

#include "engine/job/interface/report.h"
#include "engine/metrics/registry.h"
#include "engine/strategy/strategy.h"

namespace hearth::job {

/// Time series of one train job, labelled by job and strategy. They exist as
/// long as this object, which outlives the job for some time. Thread-safe.
class TrainMetrics {
 public:
  virtual ~TrainMetrics() = default;

  /// A training batch is done.
  virtual void OnBatch(double loss) = 0;

  /// An epoch is done, including validation.
  virtual void OnEpoch(const EpochReport& epoch) = 0;

  /// Adds what the numbers of a pass have grown by since the last call for this
  /// pass. `new_pass`: they start from zero.
  virtual void OnPass(const strategy::PassReport& pass, bool new_pass) = 0;

  /// Whether the following batches are of epochs without the job's history, to
  /// compare.
  virtual void OnComparing(bool now) = 0;
};

/// `registry` outlives the result.
std::unique_ptr<TrainMetrics> NewTrainMetrics(metrics::Registry& registry,
                                              const std::string& job,
                                              const std::string& strategy);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_INTERFACE_TRAIN_METRICS_H_
