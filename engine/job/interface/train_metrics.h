#ifndef HEARTH_ENGINE_JOB_INTERFACE_TRAIN_METRICS_H_
#define HEARTH_ENGINE_JOB_INTERFACE_TRAIN_METRICS_H_

#include <memory>
#include <string>

#include "engine/job/interface/report.h"
#include "engine/metrics/registry.h"
#include "engine/strategy/strategy.h"

namespace hearth::job {

/// The time series of one train job, labelled by job and strategy; they exist
/// until this is destroyed, some time after the job has ended. Thread-safe.
class TrainMetrics {
 public:
  virtual ~TrainMetrics() = default;

  /// A training batch is done.
  virtual void OnBatch(double loss) = 0;

  /// An epoch is done, its validation included.
  virtual void OnEpoch(const EpochReport& epoch) = 0;

  /// A pass's figures so far: what they have grown by since the last call for
  /// the same pass is added. `new_pass` starts from zero.
  virtual void OnPass(const strategy::PassReport& pass, bool new_pass) = 0;

  /// The batches to come are those of epochs without the job's history, to
  /// compare; or not any more.
  virtual void OnComparing(bool now) = 0;
};

/// `registry` must outlive the result.
std::unique_ptr<TrainMetrics> NewTrainMetrics(metrics::Registry& registry,
                                              const std::string& job,
                                              const std::string& strategy);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_INTERFACE_TRAIN_METRICS_H_
