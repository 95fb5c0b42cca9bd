#include "engine/strategy/budget.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "engine/base/byte_size.h"

namespace hearth::strategy {
namespace {

constexpr uint64_t kMostCacheStep = uint64_t{64} << 20;
constexpr uint64_t kCacheSteps = 16;

std::string AmountText(uint64_t amount, BudgetUnit unit) {
  return unit == BudgetUnit::kBytes ? FormatByteSize(amount)
                                    : absl::StrCat(amount);
}

// Values that a budget may be cut to, from the least on: the least, and
// multiples of the step above it.
class Ladder {
 public:
  explicit Ladder(const Budget& budget)
      : least_(budget.least),
        step_(budget.step),
        first_(budget.least / budget.step + 1) {
    const uint64_t most = budget.useful == 0
                              ? budget.asked
                              : std::min(budget.asked, budget.useful);
    const uint64_t end = most / step_ + (most % step_ > 0 ? 1 : 0);
    num_rungs_ = 1 + (end > first_ ? end - first_ : 0);
  }

  uint64_t num_rungs() const { return num_rungs_; }
  uint64_t amount(uint64_t rung) const {
    return rung == 0 ? least_ : (first_ + rung - 1) * step_;
  }

 private:
  uint64_t least_;
  uint64_t step_;
  // The number of steps of the first rung above the least.
  uint64_t first_;
  uint64_t num_rungs_;
};

}  // namespace

absl::string_view Name(BudgetUnit unit) {
  switch (unit) {
    case BudgetUnit::kBytes:
      return "bytes";
    case BudgetUnit::kBatches:
      return "batches";
    case BudgetUnit::kThreads:
      return "threads";
  }
  return "";
}

std::string Describe(const BudgetCut& cut) {
  return absl::StrCat(cut.option, ": ", AmountText(cut.chosen, cut.unit),
                      " instead of ", AmountText(cut.asked, cut.unit));
}

std::vector<uint64_t> FitBudgets(
    absl::Span<const Budget> budgets, uint64_t limit_bytes,
    absl::FunctionRef<uint64_t(absl::Span<const uint64_t> amounts)> estimate) {
  std::vector<uint64_t> amounts;
  amounts.reserve(budgets.size());
  for (const Budget& budget : budgets) amounts.push_back(budget.asked);
  uint64_t bytes = estimate(amounts);
  if (bytes <= limit_bytes) return amounts;
  for (size_t i = 0; i < budgets.size(); ++i) {
    if (budgets[i].asked <= budgets[i].least) continue;
    amounts[i] = budgets[i].least;
    const uint64_t bytes_at_least = estimate(amounts);
    if (bytes_at_least > limit_bytes) {
      if (bytes_at_least > bytes) amounts[i] = budgets[i].asked;
      bytes = std::min(bytes, bytes_at_least);
      continue;
    }
    const auto fits = [&](uint64_t amount) {
      amounts[i] = amount;
      return estimate(amounts) <= limit_bytes;
    };
    const Ladder ladder(budgets[i]);
    uint64_t good = 0;
    uint64_t bad = ladder.num_rungs();
    while (bad - good > 1) {
      const uint64_t middle = good + (bad - good) / 2;
      (fits(ladder.amount(middle)) ? good : bad) = middle;
    }
    amounts[i] = ladder.amount(good);
    return amounts;
  }
  return amounts;
}

std::vector<BudgetCut> CutsOf(absl::Span<const Budget> budgets,
                              absl::Span<const uint64_t> amounts) {
  std::vector<BudgetCut> cuts;
  for (size_t i = 0; i < budgets.size(); ++i) {
    if (amounts[i] >= budgets[i].asked) continue;
    cuts.push_back({.option = budgets[i].option,
                    .unit = budgets[i].unit,
                    .asked = budgets[i].asked,
                    .chosen = amounts[i]});
  }
  return cuts;
}

Budget CacheBudget(std::string option, uint64_t asked_bytes,
                   uint64_t useful_bytes) {
  return {.option = std::move(option),
          .asked = asked_bytes,
          .useful = useful_bytes,
          .step = std::clamp<uint64_t>(
              std::min(asked_bytes, useful_bytes) / kCacheSteps, 1,
              kMostCacheStep)};
}

}  // namespace hearth::strategy
