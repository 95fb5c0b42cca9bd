#ifndef HEARTH_ENGINE_JOB_DATA_SEED_PARTITION_H_
#define HEARTH_ENGINE_JOB_DATA_SEED_PARTITION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/job/interface/job_environment.h"
#include "engine/job/interface/observer.h"
#include "engine/job/interface/train_job_options.h"
#include "engine/plan/partition/partition.h"
#include "engine/plan/plan_records.h"
#include "engine/plan/plan_store.h"
#include "engine/store/dataset.h"
#include "engine/store/topology.h"
#include "engine/strategy/memory_budget.h"
#include "engine/strategy/pass.h"

/// Plans that a job finds or makes before it trains: FindOrMakePlan for any
/// kind, and the partition that orders the seeds. A plan is used under a lease,
/// so that the store does not remove it meanwhile.

namespace hearth::job {

/// How a plan of one kind is opened and made.
template <typename Opened>
struct PlanRecipe {
  /// Name of the plan in the store.
  std::string name;
  /// Kind of the plan, for people: "partition".
  absl::string_view kind;
  /// Opens the plan in a folder. NOT_FOUND if there is none; DATA_LOSS or
  /// FAILED_PRECONDITION if it cannot be used.
  std::function<absl::StatusOr<Opened>(const std::string& folder)> open;
  /// Makes the plan in the lease's folder, which is empty, and publishes it;
  /// also makes space for it in the store.
  std::function<absl::Status(plan::PlanLease& lease)> make;
};

/// A plan that was found or made, and the lease that keeps it in the store.
template <typename Opened>
struct LeasedPlan {
  plan::PlanLease lease;
  Opened opened;
  /// Whether the plan was found.
  bool reused = false;
};

/// Finds the plan in the store of `environment`, or makes it there. A plan that
/// cannot be used is removed, which the observer hears, and made again. Errors
/// of plan::PlanStore::Take and of the recipe.
template <typename Opened>
absl::StatusOr<LeasedPlan<Opened>> FindOrMakePlan(
    const JobEnvironment& environment, const PlanRecipe<Opened>& recipe,
    Observer& observer, const std::stop_token& stop) {
  HEARTH_ASSIGN_OR_RETURN(plan::PlanLease lease,
                          environment.plans.Take(recipe.name, stop));
  absl::StatusOr<Opened> opened = recipe.open(lease.folder());
  const bool reused = opened.ok() && lease.records().ReadAbout().ok();
  if (!reused) {
    const absl::Status& why = opened.status();
    if (absl::IsDataLoss(why) || absl::IsFailedPrecondition(why)) {
      observer.OnLog(
          Severity::kWarning,
          absl::StrCat(recipe.kind, " ", recipe.name,
                       " is removed and made again: ", why.message()));
    } else if (!why.ok() && !absl::IsNotFound(why)) {
      return why;
    }
    HEARTH_RETURN_IF_ERROR(lease.Clear());
    HEARTH_RETURN_IF_ERROR(recipe.make(lease));
    observer.OnDurable();
    opened = recipe.open(lease.folder());
  }
  HEARTH_RETURN_IF_ERROR(opened.status());
  HEARTH_RETURN_IF_ERROR(lease.Share());
  return LeasedPlan<Opened>{.lease = std::move(lease),
                            .opened = *std::move(opened),
                            .reused = reused};
}

/// The partition that orders a job's seeds, and the lease that keeps it in the
/// store.
struct SeedPartition {
  plan::PlanLease lease;
  std::shared_ptr<const plan::Partition> partition;
  strategy::PreparationReport report;
  /// Memory that was reserved to make the partition; empty if it was found.
  strategy::MemoryEstimate making_memory;
};

/// Finds the partition of `dataset` that `order` asks for in the plan store, or
/// makes it there, with a memory reservation for that time. A damaged partition
/// is made again. `training_nodes` are the labeled ones, in any order, or with
/// `nodes_name`, which tells them apart, others. Errors as
/// plan::WritePartition, plan::PlanStore::Take and MemoryLedger::Reserve.
absl::StatusOr<SeedPartition> OpenPartition(
    const JobEnvironment& environment, const store::Dataset& dataset,
    absl::Span<const store::NodeId> training_nodes,
    const std::string& nodes_name, const PartitionOrder& order,
    int64_t batch_size, Observer& observer, std::stop_token stop);

/// Part of each of `training_nodes`, in their order. REQUIRES: the partition
/// was made with these nodes.
std::vector<uint16_t> PartsOf(const plan::Partition& partition,
                              absl::Span<const store::NodeId> training_nodes);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_DATA_SEED_PARTITION_H_
