#ifndef HEARTH_ENGINE_PLAN_PLAN_STORES_H_
#define HEARTH_ENGINE_PLAN_PLAN_STORES_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/plan/plan_store.h"

namespace hearth::plan {

/// The plans of several stores together, for those who show or remove plans of
/// any kind. A name is in one of them at most. Thread-safe.
class PlanStores {
 public:
  /// `main` has the plans that any job can make, `others` are on disks of their
  /// own. All outlive it.
  PlanStores(PlanStore& main, absl::Span<PlanStore* const> others);

  /// The last used first.
  absl::StatusOr<std::vector<PlanInfo>> List() const;

  /// As those of PlanStore, in the store that has the plan.
  absl::StatusOr<PlanInfo> Get(const std::string& name) const;
  absl::Status Remove(const std::string& name) const;

  /// As that of PlanStore, in all of them: the first error.
  absl::Status RemoveOf(absl::string_view fingerprint) const;

 private:
  // The first outcome of a store that knows the name.
  template <typename Outcome>
  Outcome FirstFound(
      const std::function<Outcome(PlanStore& store)>& look) const;

  std::vector<PlanStore*> stores_;
};

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_PLAN_STORES_H_
