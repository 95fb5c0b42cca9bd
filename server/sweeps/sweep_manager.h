#ifndef HEARTH_SERVER_SWEEPS_SWEEP_MANAGER_H_
#define HEARTH_SERVER_SWEEPS_SWEEP_MANAGER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hearth/v1/sweeps.pb.h"
#include "server/jobs/job_events.h"

namespace hearth::metrics {
class Registry;
}  // namespace hearth::metrics

namespace hearth::plan {
class PlanStores;
}  // namespace hearth::plan

namespace hearth::server {

class Admission;
class DatasetCatalog;
class JobStore;
class Scheduler;
class SweepStore;
struct JobOrigin;

/// Parts of the daemon that a SweepManager uses; all outlive it.
struct SweepManagerDependencies {
  JobStore& store;
  SweepStore& sweeps;
  const DatasetCatalog& datasets;
  Admission& admission;
  Scheduler& scheduler;
  const plan::PlanStores& plans;
  metrics::Registry& registry;
};

/// Runs sweeps: submits their trials as jobs, hears of the jobs' epochs and
/// ends, and holds and stops jobs as the searches decide. An event, the
/// resulting decisions, and their changes of jobs are stored in one
/// transaction; only then are jobs told. So a daemon that was killed continues
/// with the same decisions. Thread-safe.
class SweepManager : public TrialObserver {
 public:
  /// Rebuilds the sweeps that have not ended, with the jobs that have ended
  /// meanwhile. Call after the scheduler has loaded its jobs, and before it
  /// runs any.
  static absl::StatusOr<std::unique_ptr<SweepManager>> Make(
      const SweepManagerDependencies& dependencies);

  /// The daemon stops: from now on no trial waits for a decision.
  virtual void Close() = 0;

  // Errors as of the methods of hearth.v1.Sweeps.
  virtual absl::StatusOr<v1::Sweep> Submit(
      const v1::SubmitSweepRequest& request, const JobOrigin& origin) = 0;
  virtual absl::StatusOr<v1::Sweep> Get(const std::string& id) = 0;
  virtual absl::StatusOr<v1::Sweep> Pause(const std::string& id) = 0;
  virtual absl::StatusOr<v1::Sweep> Resume(const std::string& id) = 0;
  virtual absl::StatusOr<v1::Sweep> Stop(const std::string& id) = 0;
  virtual absl::StatusOr<v1::Sweep> AddTrial(
      const v1::AddTrialRequest& request) = 0;
  virtual absl::StatusOr<v1::Sweep> StopTrial(
      const v1::StopTrialRequest& request) = 0;
  virtual absl::Status ContinueTrial(
      const v1::ContinueTrialRequest& request) = 0;
  virtual absl::Status Delete(const v1::DeleteSweepRequest& request) = 0;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_SWEEPS_SWEEP_MANAGER_H_
