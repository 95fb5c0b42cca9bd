#include "engine/strategy/gnndrive/extractor.h"

#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

using ::testing::HasSubstr;

// A million rows of 100 bytes; batches of up to 800 of at most 5000.
const BatchBound kBatches = {.largest = {.nodes = {800}, .edges = {}},
                             .likely = {.nodes = {900}, .edges = {}},
                             .bound = {.nodes = {5000}, .edges = {}}};

SlotBudget Budget(int extractors) {
  return {.row_bytes = 100, .num_rows = 1'000'000, .extractors = extractors};
}

TEST(PlanSlotsTest, ByDefaultEachExtractorHasTheLargestBatchAndAMargin) {
  const auto plan = PlanSlots(Budget(4), kBatches);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->reserved_slots, 4 * 900);
  EXPECT_EQ(plan->cache_slots, 0);
  EXPECT_EQ(plan->extractors, 4);
  EXPECT_EQ(plan->needed_slots, 4 * 800);
}

TEST(PlanSlotsTest, TheCacheComesOnTop) {
  SlotBudget budget = Budget(1);
  budget.cpu_cache_bytes = 12'345;
  const auto plan = PlanSlots(budget, kBatches);
  EXPECT_EQ(plan->cache_slots, 123);
  EXPECT_EQ(plan->num_slots(), 900 + 123);
  EXPECT_EQ(plan->needed_slots, 800 + 123);
}

TEST(PlanSlotsTest, ExtractorsShrinkToFitTheStaging) {
  SlotBudget budget = Budget(4);
  for (const auto& [bytes, extractors] :
       {std::pair{80'000, 1}, {159'999, 1}, {160'000, 2}, {900'000, 4}}) {
    budget.staging_bytes = bytes;
    const auto plan = PlanSlots(budget, kBatches);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->extractors, extractors) << bytes;
    EXPECT_EQ(plan->reserved_slots, bytes / 100);
    EXPECT_LE(plan->needed_slots, plan->num_slots());
  }
}

TEST(PlanSlotsTest, StagingForLessThanABatchIsRefusedWithTheNumbers) {
  SlotBudget budget = Budget(4);
  budget.staging_bytes = 79'999;
  const absl::Status refused = PlanSlots(budget, kBatches).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  for (const char* part : {"799 rows", "800 input nodes", "80000 bytes"}) {
    EXPECT_THAT(std::string(refused.message()), HasSubstr(part));
  }
}

TEST(PlanSlotsTest, NeverMoreSlotsThanRows) {
  SlotBudget budget = Budget(4);
  budget.num_rows = 1000;
  budget.cpu_cache_bytes = UINT64_MAX;
  auto plan = PlanSlots(budget, kBatches);
  EXPECT_EQ(plan->num_slots(), 1000);
  EXPECT_EQ(plan->extractors, 4);
  budget.staging_bytes = UINT64_MAX;
  plan = PlanSlots(budget, kBatches);
  EXPECT_EQ(plan->num_slots(), 1000);
  EXPECT_EQ(plan->extractors, 4) << "all rows are there: none wait for slots";
  budget.num_rows = 10'000;
  budget.staging_bytes = 0;
  EXPECT_EQ(PlanSlots(budget, kBatches)->num_slots(), 10'000);
}

TEST(PlanSlotsTest, APassWithoutBatchesNeedsNone) {
  SlotBudget budget = Budget(2);
  EXPECT_EQ(PlanSlots(budget, {})->num_slots(), 0);
  budget.staging_bytes = 50;
  EXPECT_EQ(PlanSlots(budget, {})->extractors, 1);
}

}  // namespace
}  // namespace hearth::strategy
