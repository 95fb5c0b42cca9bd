#ifndef HEARTH_SERVER_DAEMON_METRICS_H_
#define HEARTH_SERVER_DAEMON_METRICS_H_

#include <memory>
#include <string>

#include "engine/io/file_system.h"
#include "engine/job/memory_ledger.h"
#include "engine/metrics/registry.h"
#include "engine/plan/plan_store.h"
#include "server/jobs/scheduler.h"
#include "server/storage/data_dir.h"
#include "server/storage/data_disks.h"
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

}  // namespace hearth::server

#endif  // HEARTH_SERVER_DAEMON_METRICS_H_
