#ifndef HEARTH_SERVER_JOBS_JOB_EVENTS_H_
#define HEARTH_SERVER_JOBS_JOB_EVENTS_H_

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "hearth/v1/jobs.pb.h"
#include "hearth/v1/report.pb.h"

/// Interfaces between the scheduler, the runner that does the work of a job
/// (job_runner.h), and the observer that decides about the trials of sweeps
/// (server/sweeps).

namespace hearth::server {

/// Stores the events of a running job and passes them on. Called from one
/// thread at a time.
class JobEvents {
 public:
  virtual ~JobEvents() = default;

  /// The job leaves PREPARING. Must be called before the job succeeds.
  virtual void OnRunning() = 0;

  /// Appends an event; the callee sets its sequence number and time.
  virtual void Append(const v1::JobEvent& event) = 0;

  /// Sets first_epoch_key in the job's spec durably.
  virtual absl::Status OnFirstEpochKey(uint32_t key) = 0;

  /// An epoch is over. OK once its report is durable; does nothing if it was
  /// durable before.
  virtual absl::Status OnEpoch(const v1::EpochReport& epoch) = 0;

  /// Durable work was done from which another run of the job continues.
  virtual void OnDurable() = 0;
};

/// Runs single jobs of any kind.
class JobRunner {
 public:
  virtual ~JobRunner() = default;

  /// Blocks until the job has ended. When `stop` is requested, soon returns
  /// CANCELLED, in a state from which another Run of the same job continues.
  /// Called from several threads at a time, for different jobs; may throw.
  virtual absl::StatusOr<v1::JobReport> Run(const v1::Job& job,
                                            JobEvents& events,
                                            std::stop_token stop) = 0;

  /// Removes files that runs of the job have left only for another run of it.
  /// Called before the store knows that a job which has run FAILED or is
  /// CANCELLED, or right after for a job that did not run. No run of the job
  /// begins meanwhile.
  virtual void Discard(const std::string& /*id*/) {}

  /// Finds or makes the plan of a queued train job, while others run. CANCELLED
  /// when `stop` is requested. May throw.
  virtual absl::StatusOr<v1::PrepareReport> PrepareAhead(
      const v1::Job& /*job*/, std::stop_token /*stop*/) {
    return v1::PrepareReport();
  }
};

/// Decision about a job after an epoch.
enum class EpochDecision {
  kGoOn,
  /// The job stops at once and is QUEUED, held back.
  kHold,
  /// The job stops at once and is CANCELLED.
  kCancel,
};

/// The report of an epoch that a job has finished.
struct EpochOfJob {
  v1::Job job;
  v1::EpochReport report;
  /// Requested once the job is to stop: the observer must not wait any longer.
  std::stop_token stop;
  /// Set by the observer: the decision, or the error with which the job ends.
  absl::StatusOr<EpochDecision> decision = EpochDecision::kGoOn;
};

/// Decides about jobs that are trials of sweeps. Thread-safe; called without
/// locks.
class TrialObserver {
 public:
  virtual ~TrialObserver() = default;

  /// Jobs of sweeps have finished an epoch together: stores their reports, as
  /// JobEvents::OnEpoch, with everything that follows from them, and sets the
  /// decisions. Returns the ids of jobs that begin as a consequence.
  virtual std::vector<std::string> OnEpochs(
      absl::Span<EpochOfJob* const> epochs) = 0;

  /// A job, of a sweep or not, may have ended, or was asked to stop.
  virtual void OnEnded(const std::string& id) = 0;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_JOBS_JOB_EVENTS_H_
