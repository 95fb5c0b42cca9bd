#include "engine/job/model_memory.h"

#include <cstdint>

#include "absl/status/status.h"
#include "engine/job/memory_ledger.h"
#include "gtest/gtest.h"

namespace hearth::job {
namespace {

constexpr uint64_t kLimit = 1000;

class ModelMemoryTest : public ::testing::Test {
 protected:
  MemoryLedger ledger_{kLimit,
                       {.available = [] { return uint64_t{1} << 40; },
                        .used = [] { return uint64_t{0}; },
                        .capacity = uint64_t{1} << 40}};
  const int first_ = 0;
  const int second_ = 0;
  const int third_ = 0;
};

TEST_F(ModelMemoryTest, TheFirstModelIsReservedWithTheStrategy) {
  ModelMemory models(ledger_, 1);
  ASSERT_TRUE(models.Add(&first_, {.bytes = 300, .kept_bytes = 40}).ok());
  EXPECT_EQ(ledger_.reserved_bytes(), 0u);
  EXPECT_EQ(models.peak_bytes(), 0u);
}

TEST_F(ModelMemoryTest, OneStepAtATimeNeedsTheLargestStepOnce) {
  ModelMemory models(ledger_, 1);
  ASSERT_TRUE(models.Add(&first_, {.bytes = 300, .kept_bytes = 40}).ok());
  ASSERT_TRUE(models.Add(&second_, {.bytes = 230, .kept_bytes = 30}).ok());
  EXPECT_EQ(ledger_.reserved_bytes(), 30u);
  // Its step takes 40 more than the first one's.
  ASSERT_TRUE(models.Add(&third_, {.bytes = 310, .kept_bytes = 10}).ok());
  EXPECT_EQ(ledger_.reserved_bytes(), 30u + 10u + 40u);
  models.Remove(&third_);
  EXPECT_EQ(ledger_.reserved_bytes(), 30u);
  models.Remove(&second_);
  EXPECT_EQ(ledger_.reserved_bytes(), 0u);
  EXPECT_EQ(models.peak_bytes(), 80u);
}

TEST_F(ModelMemoryTest, TwoStepsAtATimeNeedTheTwoLargest) {
  ModelMemory models(ledger_, 2);
  ASSERT_TRUE(models.Add(&first_, {.bytes = 300, .kept_bytes = 40}).ok());
  ASSERT_TRUE(models.Add(&second_, {.bytes = 230, .kept_bytes = 30}).ok());
  EXPECT_EQ(ledger_.reserved_bytes(), 230u);
  ASSERT_TRUE(models.Add(&third_, {.bytes = 110, .kept_bytes = 10}).ok());
  EXPECT_EQ(ledger_.reserved_bytes(), 240u);
}

// Pages that the first one leaves behind are the others' to use.
TEST_F(ModelMemoryTest, TheFirstOnesPlaceStaysReserved) {
  ModelMemory models(ledger_, 1);
  ASSERT_TRUE(models.Add(&first_, {.bytes = 300, .kept_bytes = 40}).ok());
  ASSERT_TRUE(models.Add(&second_, {.bytes = 230, .kept_bytes = 30}).ok());
  models.Remove(&first_);
  EXPECT_EQ(ledger_.reserved_bytes(), 0u);
  ASSERT_TRUE(models.Add(&third_, {.bytes = 230, .kept_bytes = 30}).ok());
  EXPECT_EQ(ledger_.reserved_bytes(), 0u);
}

TEST_F(ModelMemoryTest, OneThatFindsNoRoomIsNotAdded) {
  ModelMemory models(ledger_, 1);
  ASSERT_TRUE(models.Add(&first_, {.bytes = 300, .kept_bytes = 40}).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(
      models.Add(&second_, {.bytes = 2000, .kept_bytes = 30})));
  EXPECT_EQ(ledger_.reserved_bytes(), 0u);
  ASSERT_TRUE(models.Add(&third_, {.bytes = 100, .kept_bytes = 50}).ok());
  EXPECT_EQ(ledger_.reserved_bytes(), 50u);
}

}  // namespace
}  // namespace hearth::job
