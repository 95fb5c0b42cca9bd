#ifndef HEARTH_ENGINE_STRATEGY_GNNDRIVE_SLOT_PLAN_H_
#define HEARTH_ENGINE_STRATEGY_GNNDRIVE_SLOT_PLAN_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/strategy/batch_bound.h"

namespace hearth::strategy {

/// The budgets and sizes that the feature buffer's size follows from.
struct SlotBudget {
  uint64_t cpu_cache_bytes = 0;
  /// 0 = as much as the extractors need.
  uint64_t staging_bytes = 0;
  int64_t row_bytes = 0;
  /// Rows there are.
  int64_t num_rows = 0;
  /// Extractors asked for, at least one.
  int extractors = 1;
};

/// How many slots the feature buffer has, and how many extractors use it.
struct SlotPlan {
  /// GNNDrive's Ne x Mb (section 4.2).
  int64_t reserved_slots = 0;
  /// Standby slots beyond them.
  int64_t cache_slots = 0;
  int extractors = 1;
  /// Slots that the measured batches need, without a margin: a buffer that has
  /// so many already is kept, with its rows.
  int64_t needed_slots = 0;

  int64_t num_slots() const { return reserved_slots + cache_slots; }
};

/// The reserve is the largest batch for each extractor, or the slots that fit
/// staging_bytes; then there are as many extractors as these serve. No plan has
/// more slots than there are rows, or than a slot table can have.
/// RESOURCE_EXHAUSTED, with the numbers, if staging_bytes do not hold one
/// batch.
absl::StatusOr<SlotPlan> PlanSlots(const SlotBudget& budget,
                                   const BatchBound& batches);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_GNNDRIVE_SLOT_PLAN_H_
