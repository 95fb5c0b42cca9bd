#ifndef HEARTH_SERVER_PAGE_METRICS_PORT_H_
#define HEARTH_SERVER_PAGE_METRICS_PORT_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/base/clock.h"
#include "hearth/v1/sweeps.pb.h"
#include "server/page/http_server.h"

/// Contents of the metrics port: time series of the daemon, its state for the
/// page, and the page itself.

namespace hearth::io {
class FileSystem;
}
namespace hearth::job {
class MemoryLedger;
}
namespace hearth::metrics {
class Registry;
}
namespace hearth::plan {
class PlanStore;
}

namespace hearth::server {

class DataDir;
class DataDisks;
class JobStore;
class SweepStore;

/// Time series of the daemon as a whole, updated at each collection: build,
/// jobs by state, queue, memory by kind and by owner, free space, plans. They
/// exist as long as the object.
class DaemonMetrics {
 public:
  virtual ~DaemonMetrics() = default;
};

/// Objects that the series are read from; all must outlive the result.
struct DaemonMetricsDependencies {
  metrics::Registry& registry;
  JobStore& store;
  /// Seconds that the longest queued or waiting job has been so; 0 = none is.
  /// Called at each collection.
  std::function<double()> longest_queue_seconds;
  io::FileSystem& files;
  const DataDir& data_dir;
  const job::MemoryLedger& memory;
  plan::PlanStore& plans;
  const DataDisks& data_disks;
};

/// `torch_version` may be empty.
std::unique_ptr<DaemonMetrics> NewDaemonMetrics(
    const DaemonMetricsDependencies& deps, const std::string& torch_version);

/// State that the page shows, as one line of JSON:
///
///   {"version", "time", "start_time",      seconds since 1970
///    "jobs": [                             newest first: kJobs newest jobs
///                                          that prepare or run; kJobs that are
///                                          queued or wait and kJobs that have
///                                          ended, without jobs of sweeps
///      {"id", "kind", "state", "create_time", and where the job has them:
///       "dataset", "strategy", "model", "start_time", "end_time", "error",
///       "waiting_reason", "progress": {"phase", "done", "total", "epoch",
///       "epochs"},
///       "machines": [{"member", "phase", "done", "total", "epoch",
///        "bytes_sent", "bytes_received", "wait_seconds", "silent_seconds"}],
///                                          those that train it, by rank
///       "sweep", "trial",                  sweep of the job; its trial, from 1
///       "metric",                          name of the following figures
///       "test_metric",                     on the test nodes
///       "best_epoch",                      epoch whose weights are kept, or
///                                          the best one so far
///       "best_valid_metric",               its figure on the validation nodes
///       "epochs": [{"epoch", "loss", "valid_metric", "seconds"}]}],
///    "sweeps": [                           kSweeps newest sweeps and those of
///                                          jobs above, newest first
///      {"id", "state" ("RUNNING", "PAUSED", "DONE", "STOPPED"),
///       "create_time", "dataset", "strategy", "model", "algorithm",
///       "counts": {STATE: trials},         by state ("pending", "running",
///                                          "waiting", "succeeded", "failed",
///                                          "stopped")
///       "metric",                          what trials are judged by, "loss"
///                                          included; empty = not known yet
///       and where the sweep has them: "end_time", "best_trial", "best_metric",
///       "test_metric", "test_fault" as in v1::Sweep, and
///       "trials": [                        kTrials trials: those that run or
///                                          wait, then by rank, then the others
///         {"number", "state", "parameters" ("lr 0.01, hidden 64"), "epochs",
///          and where the trial has them: "metric", "rank", "reason",
///          "test_metric", "same_as" as in v1::Trial,
///          "job",                          its best job, or its first one
///          "curve": [[epoch, metric]]}]}], of that job; not with "same_as"
///    "series": [TEXT, ...]}                lines of /metrics: of the daemon,
///                                          and of active jobs
///
/// Ended sweeps with more than kSweepEvents events have no "trials", and of
/// ended sweeps only the newest one has curves. A further key "error" tells why
/// jobs or sweeps cannot be read. Of a spec there are names and searched values
/// only; a job's error may name files. It is made at most once per
/// kLifetimeSeconds, however many clients ask, and costs the same however many
/// jobs and sweeps there are. Thread-safe.
class DaemonState {
 public:
  static constexpr int kJobs = 20;
  /// Greatest number of epochs shown of a job, evenly chosen.
  static constexpr int kEpochs = 200;
  static constexpr int kSweeps = 10;
  static constexpr int kTrials = 40;
  /// Greatest number of points of a trial's curve, evenly chosen.
  static constexpr int kCurvePoints = 60;
  static constexpr int kSweepEvents = 10'000;
  static constexpr double kLifetimeSeconds = 0.9;

  virtual ~DaemonState() = default;
  virtual std::string Json() = 0;
};

/// Objects that the state is read from; all must outlive the result.
struct DaemonStateDependencies {
  JobStore& store;
  SweepStore& sweeps;
  /// Sweep of an id, with its trials.
  std::function<absl::StatusOr<v1::Sweep>(const std::string& id)> get_sweep;
  /// Adds to a running job the machines that train it; null: there are none.
  std::function<void(v1::Job& job)> add_machines;
  const metrics::Registry& registry;
  const Clock& clock;
};

/// State of a daemon that starts now.
std::unique_ptr<DaemonState> NewDaemonState(
    const DaemonStateDependencies& dependencies);

/// Serves on `address`: the page at "/", its state at "/api/state" and, as
/// server-sent events, at "/api/events", and all series for Prometheus at
/// "/metrics". All arguments must outlive the result. UNAVAILABLE, naming the
/// address, if it is in use.
absl::StatusOr<std::unique_ptr<HttpServer>> ServePage(
    const std::string& address, const metrics::Registry& registry,
    DaemonState& state);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_PAGE_METRICS_PORT_H_
