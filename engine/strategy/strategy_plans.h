#ifndef HEARTH_ENGINE_STRATEGY_STRATEGY_PLANS_H_
#define HEARTH_ENGINE_STRATEGY_STRATEGY_PLANS_H_

#include <optional>

#include "engine/plan/plan_store.h"
#include "engine/strategy/strategy.h"

/// Where a strategy keeps its plans (StrategyPlans).

namespace hearth::strategy {

/// StrategyResources::plans; without it a store among the scratch files, for
/// one strategy alone.
class StrategyPlans {
 public:
  /// Everything that `resources` refers to outlives the object.
  explicit StrategyPlans(const StrategyResources& resources)
      : store_(resources.plans) {
    if (store_ != nullptr) return;
    store_ = &own_.emplace(
        resources.files, resources.clock,
        plan::PlanStore::Options{.folder = resources.scratch_folder});
  }
  StrategyPlans(const StrategyPlans&) = delete;
  StrategyPlans& operator=(const StrategyPlans&) = delete;

  plan::PlanStore& store() { return *store_; }

 private:
  plan::PlanStore* store_;
  std::optional<plan::PlanStore> own_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_STRATEGY_PLANS_H_
