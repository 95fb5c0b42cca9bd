#ifndef HEARTH_SERVER_PAGE_METRICS_PORT_H_
#define HEARTH_SERVER_PAGE_METRICS_PORT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/job/memory/memory_ledger.h"
#include "engine/metrics/registry.h"
#include "engine/plan/plan_store.h"
#include "server/jobs/scheduler.h"
#include "server/page/http_server.h"
#include "server/storage/data_dir.h"
#include "server/storage/job_store.h"

namespace hearth::server {

/// The time series of the daemon as a whole, looked up at each collection:
/// build, jobs by state, the queue, memory by kind and by owner, free space,
/// plans. They exist as long as this.
class DaemonMetrics {
 public:
  virtual ~DaemonMetrics() = default;
};

/// The parts that the series look at; all must outlive the result.
struct DaemonMetricsParts {
  metrics::Registry& registry;
  JobStore& store;
  Scheduler& scheduler;
  io::FileSystem& files;
  const DataDir& data_dir;
  const job::MemoryLedger& memory;
  plan::PlanStore& plans;
  const DataDisks& data_disks;
};

/// The series of these parts. `torch_version` may be empty.
std::unique_ptr<DaemonMetrics> NewDaemonMetrics(
    const DaemonMetricsParts& parts, const std::string& torch_version);

/// State that the page shows, as one line of JSON:
///
///   {"version", "time", "start_time",      seconds since 1970
///    "jobs": [                             the newest ones, newest first
///      {"id", "kind", "state", "create_time", and where it has them:
///       "dataset", "strategy", "model", "start_time", "end_time", "error",
///       "waiting_reason", "progress": {"phase", "done", "total", "epoch",
///       "epochs"}, "metric", "test_metric",
///       "epochs": [{"epoch", "loss", "valid_metric", "seconds"}]}],
///    "series": [TEXT, ...]}                lines of /metrics: those of the
///                                          daemon, and of jobs that run
///
/// An "error" beside them tells why jobs cannot be read. Of a job's spec there
/// are names only; its error may name files. However many ask, it is made once
/// per kLifetimeSeconds. Thread-safe.
class DaemonState {
 public:
  static constexpr int kJobs = 20;
  /// Epochs of a job, evenly chosen of more.
  static constexpr int kEpochs = 200;
  static constexpr double kLifetimeSeconds = 0.9;

  virtual ~DaemonState() = default;
  virtual std::string Json() = 0;
};

/// The state of a daemon that starts now. All must outlive the result.
std::unique_ptr<DaemonState> NewDaemonState(JobStore& store,
                                            const metrics::Registry& registry,
                                            const Clock& clock);

/// Serves on `address`: at "/" the page that shows a daemon live, at
/// "/api/state" what it shows, at "/api/events" the same as a stream of
/// server-sent events, and at "/metrics" all series for Prometheus. All must
/// outlive the result. UNAVAILABLE naming the address if it is in use.
absl::StatusOr<std::unique_ptr<HttpServer>> ServePage(
    const std::string& address, const metrics::Registry& registry,
    DaemonState& state);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_PAGE_METRICS_PORT_H_
