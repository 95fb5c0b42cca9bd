#ifndef HEARTH_SERVER_SWEEPS_SWEEP_MANAGER_H_
#define HEARTH_SERVER_SWEEPS_SWEEP_MANAGER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/metrics/registry.h"
#include "engine/plan/plan_store.h"
#include "hearth/v1/sweeps.pb.h"
#include "server/jobs/admission.h"
#include "server/jobs/scheduler.h"
#include "server/storage/dataset_catalog.h"
#include "server/storage/job_store.h"
#include "server/storage/sweep_store.h"

namespace hearth::server {

/// The parts that a SweepManager uses; all must outlive it.
struct SweepManagerDependencies {
  JobStore& store;
  SweepStore& sweeps;
  const DatasetCatalog& datasets;
  Admission& admission;
  Scheduler& scheduler;
  const plan::PlanStores& plans;
  metrics::Registry& registry;
};

/// Runs sweeps: submits their trials as jobs, hears of their epochs and ends,
/// and holds and stops them as their searches decide. An event, the decisions
/// that follow from it, and what they change of jobs are stored in one
/// transaction; only then do jobs hear of them. So a daemon that is killed goes
/// on with the same decisions. Thread-safe.
class SweepManager : public TrialObserver {
 public:
  /// Rebuilds the sweeps that have not ended and catches up with jobs that
  /// ended without them. Call after the scheduler has loaded its jobs, and
  /// before it runs any.
  static absl::StatusOr<std::unique_ptr<SweepManager>> Make(
      const SweepManagerDependencies& dependencies);

  /// From now on no trial waits to be judged: the daemon stops.
  virtual void Close() = 0;

  // Errors as in hearth.v1.Sweeps.
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
