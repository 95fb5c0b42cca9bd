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

namespace hearth::job {

/// A kind of plan, and how one of it is opened and made.
template <typename Opened>
struct PlanRecipe {
  /// The name in the store.
  std::string name;
  /// The kind, for people: "partition".
  absl::string_view kind;
  /// Opens what is in a folder. NOT_FOUND if there is none; DATA_LOSS or
  /// FAILED_PRECONDITION if it cannot be used.
  std::function<absl::StatusOr<Opened>(const std::string& folder)> open;
  /// Makes it in the lease's folder, which is empty, room included, and
  /// publishes it.
  std::function<absl::Status(plan::PlanLease& lease)> make;
};

/// A plan that was found or made, and the right to use it.
template <typename Opened>
struct LeasedPlan {
  plan::PlanLease lease;
  Opened opened;
  /// Whether it was found.
  bool reused = false;
};

/// Finds the plan in the store of `environment`, or makes it there. One that
/// cannot be used is removed, which the observer hears, and made anew. Errors
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

/// The partition that orders a job's seeds, and the right to use it.
struct SeedPartition {
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
absl::StatusOr<SeedPartition> OpenPartition(
    const JobEnvironment& environment, const store::Dataset& dataset,
    absl::Span<const store::NodeId> training_nodes, const PartitionOrder& order,
    int64_t batch_size, Observer& observer, std::stop_token stop);

/// The part of each of `training_nodes`, in their order. REQUIRES: they are
/// those that the partition was made with.
std::vector<uint16_t> PartsOf(const plan::Partition& partition,
                              absl::Span<const store::NodeId> training_nodes);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_DATA_SEED_PARTITION_H_
