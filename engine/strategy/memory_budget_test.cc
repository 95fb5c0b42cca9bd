#include "engine/strategy/memory_budget.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kGiB = uint64_t{1} << 30;

// An estimate in which each unit of a budget takes `weight` bytes.
uint64_t Weigh(absl::Span<const uint64_t> weights,
               absl::Span<const uint64_t> amounts) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < weights.size(); ++i) bytes += weights[i] * amounts[i];
  return bytes;
}

std::vector<uint64_t> Fit(const std::vector<Budget>& budgets,
                          const std::vector<uint64_t>& weights,
                          uint64_t limit) {
  return FitBudgets(budgets, limit, [&](absl::Span<const uint64_t> amounts) {
    return Weigh(weights, amounts);
  });
}

const std::vector<Budget>& QueueAndCache() {
  static const auto& budgets = *new std::vector<Budget>{
      {.option = "train-queue",
       .unit = BudgetUnit::kBatches,
       .asked = 4,
       .least = 1},
      {.option = "cpu-cache", .asked = 100, .step = 30}};
  return budgets;
}

TEST(FitBudgetsTest, WhatFitsStaysAsAsked) {
  EXPECT_THAT(Fit(QueueAndCache(), {10, 1}, 140), ElementsAre(4, 100));
  EXPECT_THAT(FitBudgets({}, 0, [](auto) { return uint64_t{1}; }), IsEmpty());
}

TEST(FitBudgetsTest, TheFirstIsCutToItsLeastBeforeTheSecondIsTouched) {
  EXPECT_THAT(Fit(QueueAndCache(), {10, 1}, 139), ElementsAre(3, 100));
  EXPECT_THAT(Fit(QueueAndCache(), {10, 1}, 110), ElementsAre(1, 100));
  EXPECT_THAT(Fit(QueueAndCache(), {10, 1}, 109), ElementsAre(1, 90));
  EXPECT_THAT(Fit(QueueAndCache(), {10, 1}, 99), ElementsAre(1, 60));
  EXPECT_THAT(Fit(QueueAndCache(), {10, 1}, 39), ElementsAre(1, 0));
}

TEST(FitBudgetsTest, AllAreAtTheirLeastBelowTheFloor) {
  EXPECT_THAT(Fit(QueueAndCache(), {10, 1}, 9), ElementsAre(1, 0));
  EXPECT_THAT(Fit(QueueAndCache(), {10, 1}, 0), ElementsAre(1, 0));
}

TEST(FitBudgetsTest, MultiplesBeginBelowWhatIsOfUse) {
  const std::vector<Budget> budgets = {
      {.option = "cpu-cache", .asked = 1000, .useful = 100, .step = 30}};
  const auto estimate = [](absl::Span<const uint64_t> amounts) {
    return std::min<uint64_t>(amounts[0], 100);
  };
  EXPECT_THAT(FitBudgets(budgets, 100, estimate), ElementsAre(1000));
  EXPECT_THAT(FitBudgets(budgets, 99, estimate), ElementsAre(90));
}

// A cache, and buffers for rows that are outside it, at most 40.
TEST(FitBudgetsTest, ABudgetThatTakesLeastAsAWholeStaysWhole) {
  const std::vector<Budget> budgets = {
      {.option = "cpu-cache", .asked = 100, .step = 10},
      {.option = "staging", .asked = 30, .least = 10}};
  const auto fit = [&](uint64_t limit) {
    return FitBudgets(budgets, limit, [](absl::Span<const uint64_t> amounts) {
      return amounts[0] + 3 * std::min<uint64_t>(40, 100 - amounts[0]) +
             amounts[1];
    });
  };
  EXPECT_THAT(fit(130), ElementsAre(100, 30));
  EXPECT_THAT(fit(129), ElementsAre(100, 29));
  EXPECT_THAT(fit(110), ElementsAre(100, 10));
  EXPECT_THAT(fit(109), ElementsAre(100, 10));
}

// Less of the cache fits where all of it does not.
TEST(FitBudgetsTest, MemoryMayFallTowardsAllOfABudget) {
  const std::vector<Budget> budgets = {
      {.option = "cpu-cache", .asked = 100, .step = 10}};
  const auto fit = [&](uint64_t limit) {
    return FitBudgets(budgets, limit, [](absl::Span<const uint64_t> amounts) {
      return amounts[0] + std::min<uint64_t>(40, 2 * (100 - amounts[0]));
    });
  };
  EXPECT_THAT(fit(100), ElementsAre(100));
  EXPECT_THAT(fit(99), ElementsAre(50));
  EXPECT_THAT(fit(40), ElementsAre(0));
}

TEST(FitBudgetsTest, ALeastBetweenTwoMultiplesIsTried) {
  const std::vector<Budget> budgets = {
      {.option = "staging", .asked = 100, .least = 40, .step = 30}};
  EXPECT_THAT(Fit(budgets, {1}, 95), ElementsAre(90));
  EXPECT_THAT(Fit(budgets, {1}, 60), ElementsAre(60));
  EXPECT_THAT(Fit(budgets, {1}, 59), ElementsAre(40));
  EXPECT_THAT(Fit(budgets, {1}, 10), ElementsAre(40));
}

// For all limits: the result fits, or all budgets are at their least; budgets
// behind the last cut one are as asked, budgets before it at their least; more
// memory never means less of a budget; one step more of the last cut budget
// would not fit.
TEST(FitBudgetsTest, HoldsForAnyBudgetsAndLimits) {
  std::mt19937 random(1);
  const auto draw = [&random](uint64_t most) { return random() % (most + 1); };
  for (int round = 0; round < 300; ++round) {
    std::vector<Budget> budgets(1 + draw(3));
    std::vector<uint64_t> weights;
    std::vector<uint64_t> asked;
    std::vector<uint64_t> floor;
    for (Budget& budget : budgets) {
      budget.asked = draw(12);
      budget.least = draw(budget.asked);
      budget.useful = draw(1) * draw(15);
      budget.step = 1 + draw(4);
      weights.push_back(draw(5));
      asked.push_back(budget.asked);
      floor.push_back(budget.least);
    }
    std::vector<uint64_t> before = floor;
    for (uint64_t limit = 0; limit <= Weigh(weights, asked) + 1; ++limit) {
      const std::vector<uint64_t> amounts = Fit(budgets, weights, limit);
      ASSERT_EQ(amounts.size(), budgets.size());
      EXPECT_TRUE(Weigh(weights, amounts) <= limit || amounts == floor);
      // The number of the budget that was cut last; none if nothing was.
      size_t last = amounts.size();
      for (size_t i = 0; i < amounts.size(); ++i) {
        EXPECT_GE(amounts[i], floor[i]);
        EXPECT_LE(amounts[i], asked[i]);
        EXPECT_GE(amounts[i], before[i]) << "limit " << limit;
        if (amounts[i] < asked[i]) last = i;
      }
      if (last < amounts.size()) {
        for (size_t i = 0; i < last; ++i) EXPECT_EQ(amounts[i], floor[i]);
        const Budget& budget = budgets[last];
        std::vector<uint64_t> larger = amounts;
        larger[last] = (amounts[last] / budget.step + 1) * budget.step;
        const uint64_t most = budget.useful == 0
                                  ? budget.asked
                                  : std::min(budget.asked, budget.useful);
        if (larger[last] < most) {
          EXPECT_GT(Weigh(weights, larger), limit);
        }
      }
      before = amounts;
    }
    EXPECT_EQ(before, asked);
  }
}

TEST(CutsOfTest, TellsWhatIsLessThanAsked) {
  const std::vector<BudgetCut> cuts = CutsOf(QueueAndCache(), {1, 100});
  EXPECT_THAT(cuts, ElementsAre(BudgetCut{.option = "train-queue",
                                          .unit = BudgetUnit::kBatches,
                                          .asked = 4,
                                          .chosen = 1}));
  EXPECT_EQ(Describe(cuts[0]), "train-queue: 1 instead of 4");
  EXPECT_EQ(Describe({.option = "cpu-cache",
                      .unit = BudgetUnit::kBytes,
                      .asked = kGiB,
                      .chosen = kGiB / 2}),
            "cpu-cache: 512.0 MiB instead of 1.0 GiB");
}

TEST(CacheBudgetTest, HasStepsOf64MiBOrOfASixteenth) {
  EXPECT_EQ(CacheBudget("cpu-cache", 4 * kGiB, 8 * kGiB).step, 64 * kMiB);
  EXPECT_EQ(CacheBudget("cpu-cache", kGiB, 160 * kMiB).step, 10 * kMiB);
  EXPECT_EQ(CacheBudget("cpu-cache", 5, kGiB).step, 1u);
  EXPECT_EQ(CacheBudget("cpu-cache", 0, kGiB).step, 1u);
}

}  // namespace
}  // namespace hearth::strategy
