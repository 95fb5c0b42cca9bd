#ifndef HEARTH_ENGINE_STRATEGY_PACKING_PLAN_KEY_H_
#define HEARTH_ENGINE_STRATEGY_PACKING_PLAN_KEY_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "engine/base/sha256.h"

/// Names of plans that follow from what their bytes depend on (PlanKey).

namespace hearth::strategy {

/// A plan's name and number.
struct PlanKey {
  /// plan::PlanName of dataset and digest.
  std::string name;
  uint64_t id = 0;

  bool operator==(const PlanKey&) const = default;
};

/// The key of a plan of `strategy` for a dataset: `hash` has everything that
/// the plan's bytes depend on.
PlanKey PlanKeyOf(absl::string_view strategy, absl::string_view fingerprint,
                  const Sha256& hash);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_PACKING_PLAN_KEY_H_
