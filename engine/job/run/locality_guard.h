#ifndef HEARTH_ENGINE_JOB_RUN_LOCALITY_GUARD_H_
#define HEARTH_ENGINE_JOB_RUN_LOCALITY_GUARD_H_

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/job/data/locality.h"
#include "engine/job/interface/report.h"
#include "engine/job/interface/train_job_options.h"
#include "engine/job/run/exact_epochs.h"
#include "engine/job/run/member.h"

namespace hearth::job {

/// Whether a validation metric is more than 0.5 points (0.005) below that of a
/// pilot. NaN is below every number, and no number is below NaN.
bool IsBelowPilot(double metric, double pilot);

/// The order of a job of order locality: which one is chosen, and whether the
/// job keeps it. A pilot trains the first kEpochs epochs in shuffled order
/// (TrainShuffledPilot); the job trains as many in the chosen order, and
/// continues shuffled if its validation metric is then below the pilot's. Jobs
/// without later epochs have no guard.
///
/// The job's folder keeps choice and decision ("order.json"). Each follows from
/// options and data alone, so that a job killed at any time repeats them: see
/// the steps in the .cc. Belongs to the job's thread.
class LocalityGuard {
 public:
  /// Number of epochs after which orders are compared.
  static constexpr int64_t kEpochs = 2;

  /// Chooses the order and trains the pilot, as far as an earlier run has not;
  /// a run that only tests writes nothing. `job` outlives the guard. Errors as
  /// ChooseLocality, TrainShuffledPilot and FindCheckpoint.
  static absl::StatusOr<LocalityGuard> Open(const Member::Job& job,
                                            std::stop_token stop);

  /// Whether the job has yet to train epochs in the chosen order, to
  /// `kEpochs`, before it knows the order of the others.
  bool is_watching() const { return is_watching_; }

  /// The job's options with the order of the epochs that it trains next.
  TrainJobOptions Options() const;

  /// Ends is_watching(): compares the epochs, whose checkpoint is written, and
  /// keeps the decision, unless that was done before.
  absl::Status Decide();

  /// Whether the pilot was trained in this run.
  bool has_trained() const { return pilot_.trained; }

  /// Adds what the job's report owes to the guard.
  void AddTo(TrainReport& report) const;

 private:
  LocalityGuard(const Member::Job& job, std::string fingerprint)
      : job_(job), fingerprint_(std::move(fingerprint)) {}

  absl::Status Read();
  absl::Status Write() const;
  absl::Status Choose(const std::stop_token& stop);
  bool is_decided() const { return choice_.valid_metric.has_value(); }

  const Member::Job& job_;
  const std::string fingerprint_;
  // Whether choice_ was made or read.
  bool is_chosen_ = false;
  LocalityChoice choice_;
  bool is_watching_ = false;
  // Set if the choice was made in this run.
  std::optional<ChosenLocality> chosen_;
  ExactEpochs pilot_;
};

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_RUN_LOCALITY_GUARD_H_
