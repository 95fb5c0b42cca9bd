#ifndef HEARTH_SERVER_PAGE_METRICS_PORT_H_
#define HEARTH_SERVER_PAGE_METRICS_PORT_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/base/clock.h"
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
///    "jobs": [                             kJobs newest jobs, newest first
///      {"id", "kind", "state", "create_time", and where the job has them:
///       "dataset", "strategy", "model", "start_time", "end_time", "error",
///       "waiting_reason", "progress": {"phase", "done", "total", "epoch",
///       "epochs"}, "metric", "test_metric",
///       "epochs": [{"epoch", "loss", "valid_metric", "seconds"}]}],
///    "series": [TEXT, ...]}                lines of /metrics: of the daemon,
///                                          and of active jobs
///
/// A further key "error" tells why jobs cannot be read. Of a job's spec there
/// are names only; its error may name files. It is made at most once per
/// kLifetimeSeconds, however many clients ask. Thread-safe.
class DaemonState {
 public:
  static constexpr int kJobs = 20;
  /// Greatest number of epochs shown of a job, evenly chosen.
  static constexpr int kEpochs = 200;
  static constexpr double kLifetimeSeconds = 0.9;

  virtual ~DaemonState() = default;
  virtual std::string Json() = 0;
};

/// State of a daemon that starts now. All arguments must outlive the result.
std::unique_ptr<DaemonState> NewDaemonState(JobStore& store,
                                            const metrics::Registry& registry,
                                            const Clock& clock);

/// Serves on `address`: the page at "/", its state at "/api/state" and, as
/// server-sent events, at "/api/events", and all series for Prometheus at
/// "/metrics". All arguments must outlive the result. UNAVAILABLE, naming the
/// address, if it is in use.
absl::StatusOr<std::unique_ptr<HttpServer>> ServePage(
    const std::string& address, const metrics::Registry& registry,
    DaemonState& state);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_PAGE_METRICS_PORT_H_
