#include "engine/plan/plan_stores.h"

#include <algorithm>
#include <iterator>

#include "engine/base/status_macros.h"

namespace hearth::plan {
namespace {

const absl::Status& StatusOf(const absl::Status& status) { return status; }

const absl::Status& StatusOf(const absl::StatusOr<PlanInfo>& info) {
  return info.status();
}

}  // namespace

PlanStores::PlanStores(PlanStore& main, absl::Span<PlanStore* const> others)
    : stores_({&main}) {
  stores_.insert(stores_.end(), others.begin(), others.end());
}

template <typename Outcome>
Outcome PlanStores::FirstFound(
    const std::function<Outcome(PlanStore& store)>& look) const {
  for (size_t i = 0; i + 1 < stores_.size(); ++i) {
    Outcome outcome = look(*stores_[i]);
    if (!absl::IsNotFound(StatusOf(outcome))) return outcome;
  }
  return look(*stores_.back());
}

absl::StatusOr<std::vector<PlanInfo>> PlanStores::List() const {
  std::vector<PlanInfo> all;
  for (PlanStore* const store : stores_) {
    HEARTH_ASSIGN_OR_RETURN(std::vector<PlanInfo> plans, store->List());
    std::move(plans.begin(), plans.end(), std::back_inserter(all));
  }
  std::stable_sort(
      all.begin(), all.end(),
      [](const PlanInfo& a, const PlanInfo& b) { return a.used > b.used; });
  return all;
}

absl::StatusOr<PlanInfo> PlanStores::Get(const std::string& name) const {
  return FirstFound<absl::StatusOr<PlanInfo>>(
      [&](PlanStore& store) { return store.Get(name); });
}

absl::Status PlanStores::Remove(const std::string& name) const {
  return FirstFound<absl::Status>(
      [&](PlanStore& store) { return store.Remove(name); });
}

absl::Status PlanStores::RemoveOf(absl::string_view fingerprint) const {
  absl::Status status;
  for (PlanStore* const store : stores_) {
    status.Update(store->RemoveOf(fingerprint));
  }
  return status;
}

}  // namespace hearth::plan
