#ifndef HEARTH_ENGINE_JOB_KEPT_PLAN_H_
#define HEARTH_ENGINE_JOB_KEPT_PLAN_H_

#include <functional>
#include <stop_token>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/status_macros.h"
#include "engine/job/job_environment.h"
#include "engine/job/observer.h"
#include "engine/plan/plan_lease.h"
#include "engine/plan/plan_records.h"
#include "engine/plan/plan_store.h"

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
struct KeptPlan {
  plan::PlanLease lease;
  Opened opened;
  /// Whether it was found.
  bool reused = false;
};

/// Finds the plan in the store of `environment`, or makes it there. One that
/// cannot be used is removed, which the observer hears, and made anew. Errors
/// of plan::PlanStore::Take and of the recipe.
template <typename Opened>
absl::StatusOr<KeptPlan<Opened>> FindOrMakePlan(
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
  return KeptPlan<Opened>{.lease = std::move(lease),
                          .opened = *std::move(opened),
                          .reused = reused};
}

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_KEPT_PLAN_H_
