#ifndef HEARTH_ENGINE_JOB_STEP_TIMING_H_
#define HEARTH_ENGINE_JOB_STEP_TIMING_H_

#include <stop_token>

#include "absl/status/statusor.h"
#include "engine/base/clock.h"
#include "engine/store/dataset.h"
#include "engine/store/labels.h"
#include "engine/strategy/strategy.h"
#include "engine/train/train_step.h"

namespace hearth::job {

/// The arguments of TimeTrainStep. All of it outlives the call.
struct TimedTraining {
  const store::Dataset& dataset;
  const store::Labels& labels;
  const Clock& clock;
  /// A training pass.
  const strategy::Pass& pass;
  /// Threads that sample.
  int samplers = 1;
  std::stop_token stop;
};

/// Seconds of the mean batch of the pass in `step`, which is trained on a few
/// of them, with zeros for features: it is of no use afterwards. Memory: that
/// of the indptr, of a few batches and of one batch's input rows. Errors of
/// sampling and of the step; CANCELLED when `stop` is requested.
absl::StatusOr<double> TimeTrainStep(const TimedTraining& training,
                                     train::TrainStep& step);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_STEP_TIMING_H_
