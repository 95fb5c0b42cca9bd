#include "engine/strategy/gnndrive/slot_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/byte_size.h"
#include "engine/cache/slot_table.h"

namespace hearth::strategy {
namespace {

// More slots than rows serve nobody.
int64_t MostSlots(const SlotBudget& budget) {
  return std::min(budget.num_rows, cache::SlotTable::kMaxSlots);
}

// Rows that fit, as far as there are any.
int64_t SlotsIn(uint64_t bytes, const SlotBudget& budget) {
  return static_cast<int64_t>(
      std::min<uint64_t>(bytes / static_cast<uint64_t>(budget.row_bytes),
                         static_cast<uint64_t>(MostSlots(budget))));
}

absl::Status TooSmall(const SlotBudget& budget, int64_t slots,
                      int64_t largest) {
  const uint64_t needed =
      static_cast<uint64_t>(largest) * static_cast<uint64_t>(budget.row_bytes);
  return absl::ResourceExhaustedError(absl::StrCat(
      "staging_bytes of ", FormatByteSize(budget.staging_bytes), " holds ",
      slots, " rows of ", budget.row_bytes, " bytes, but a batch has up to ",
      largest, " input nodes: at least ", needed, " bytes (",
      FormatByteSize(needed), ") are needed, or smaller batches"));
}

}  // namespace

absl::StatusOr<SlotPlan> PlanSlots(const SlotBudget& budget,
                                   const BatchBound& batches) {
  SlotPlan plan;
  plan.extractors = budget.extractors;
  const int64_t largest = batches.largest.num_inputs();
  if (budget.staging_bytes == 0) {
    plan.reserved_slots =
        std::min(MostSlots(budget),
                 batches.WithMargin().num_inputs() * budget.extractors);
  } else {
    plan.reserved_slots = SlotsIn(budget.staging_bytes, budget);
    if (plan.reserved_slots < largest) {
      return TooSmall(budget, plan.reserved_slots, largest);
    }
    if (plan.reserved_slots < budget.num_rows) {
      const int64_t served =
          plan.reserved_slots / std::max<int64_t>(largest, 1);
      plan.extractors =
          static_cast<int>(std::clamp<int64_t>(served, 1, budget.extractors));
    }
  }
  plan.cache_slots = std::min(SlotsIn(budget.cpu_cache_bytes, budget),
                              MostSlots(budget) - plan.reserved_slots);
  plan.needed_slots = plan.cache_slots + std::min(plan.reserved_slots,
                                                  largest * budget.extractors);
  return plan;
}

}  // namespace hearth::strategy
