#ifndef HEARTH_SERVER_PAGE_DAEMON_STATE_H_
#define HEARTH_SERVER_PAGE_DAEMON_STATE_H_

#include <memory>
#include <string>

#include "engine/base/clock.h"
#include "engine/metrics/registry.h"
#include "server/storage/job_store.h"

namespace hearth::server {

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

}  // namespace hearth::server

#endif  // HEARTH_SERVER_PAGE_DAEMON_STATE_H_
