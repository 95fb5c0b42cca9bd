#ifndef HEARTH_ENGINE_JOB_JOB_PARTITION_H_
#define HEARTH_ENGINE_JOB_JOB_PARTITION_H_

#include <cstdint>
#include <memory>
#include <stop_token>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/job/job_environment.h"
#include "engine/job/observer.h"
#include "engine/job/train_job_options.h"
#include "engine/plan/partition/partition.h"
#include "engine/plan/plan_lease.h"
#include "engine/store/dataset.h"
#include "engine/store/topology.h"
#include "engine/strategy/memory_estimate.h"
#include "engine/strategy/pass_report.h"

namespace hearth::job {

/// The partition that orders a job's seeds, and the right to use it.
struct JobPartition {
  plan::PlanLease lease;
  std::shared_ptr<const plan::Partition> partition;
  strategy::PreparationReport report;
  /// The memory that making it was allowed; nothing if it was there.
  strategy::MemoryEstimate making_memory;
};

/// Finds the partition of `dataset` that `order` asks for in the plan store, or
/// makes it there within memory that it reserves meanwhile. A damaged one is
/// made anew. `training_nodes` are those with labels, in any order. Errors as
/// plan::WritePartition, plan::PlanStore::Take and MemoryLedger::Reserve.
absl::StatusOr<JobPartition> OpenPartition(
    const JobEnvironment& environment, const store::Dataset& dataset,
    absl::Span<const store::NodeId> training_nodes, const PartitionOrder& order,
    int64_t batch_size, Observer& observer, std::stop_token stop);

/// The part of each of `training_nodes`, in their order. REQUIRES: they are
/// those that the partition was made with.
std::vector<uint16_t> PartsOf(const plan::Partition& partition,
                              absl::Span<const store::NodeId> training_nodes);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_JOB_PARTITION_H_
