#include "engine/job/memory/memory_ledger.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::job {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using Reservation = MemoryLedger::Reservation;

strategy::MemoryEstimate Estimate(uint64_t kept, uint64_t other) {
  strategy::MemoryEstimate estimate;
  estimate.Add("cache", kept, /*kept=*/true);
  estimate.Add("batches", other);
  return estimate;
}

class MemoryLedgerTest : public ::testing::Test {
 protected:
  absl::Status Reserve(uint64_t kept, uint64_t other,
                       Reservation& reservation) {
    return ledger_.Reserve(Estimate(kept, other), reservation);
  }

  uint64_t available_ = 0;
  uint64_t used_ = 500;
  MemoryLedger ledger_{100,
                       {.available = [this] { return available_; },
                        .used = [this] { return used_; }}};
};

TEST_F(MemoryLedgerTest, AddsUpByOwner) {
  Reservation one;
  Reservation two;
  ASSERT_TRUE(Reserve(20, 30, one).ok());
  ASSERT_TRUE(Reserve(40, 10, two).ok());
  EXPECT_EQ(ledger_.reserved_bytes(), 100u);
  EXPECT_THAT(ledger_.BytesByOwner(),
              ElementsAre(Pair("batches", 40), Pair("cache", 60)));
  two = {};
  EXPECT_EQ(ledger_.reserved_bytes(), 50u);
  // A reservation can change.
  ASSERT_TRUE(Reserve(50, 50, one).ok());
  EXPECT_EQ(ledger_.reserved_bytes(), 100u);
}

TEST_F(MemoryLedgerTest, RestingKeepsWhatIsWorthIt) {
  Reservation one;
  ASSERT_TRUE(Reserve(20, 30, one).ok());
  one.Rest();
  EXPECT_EQ(ledger_.reserved_bytes(), 0u);
  EXPECT_EQ(ledger_.warm_bytes(), 20u);
  ASSERT_TRUE(Reserve(20, 60, one).ok());
  EXPECT_EQ(ledger_.reserved_bytes(), 80u);
  EXPECT_EQ(ledger_.warm_bytes(), 0u);
}

TEST_F(MemoryLedgerTest, MoreThanTheLimitIsRefusedWithTheNumbers) {
  Reservation one;
  const absl::Status refused = Reserve(70, 31, one);
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  for (const char* part : {"101 B", "cache 70 B, batches 31 B", "100 B"}) {
    EXPECT_THAT(std::string(refused.message()), HasSubstr(part));
  }
  EXPECT_EQ(WaitCauseOf(refused), WaitCause::kNone) << "for good";
  EXPECT_EQ(ledger_.Availability(101), MemoryAvailability::kNever);
  EXPECT_EQ(ledger_.reserved_bytes(), 0u);
}

TEST_F(MemoryLedgerTest, MoreThanTheMachineHasEverIsRefusedForGood) {
  MemoryLedger ledger{100,
                      {.available = [] { return 10; },
                       .used = [] { return 0; },
                       .capacity = 80}};
  Reservation one;
  EXPECT_EQ(WaitCauseOf(ledger.Reserve(Estimate(81, 0), one)),
            WaitCause::kNone);
  EXPECT_EQ(WaitCauseOf(ledger.Reserve(Estimate(80, 0), one)),
            WaitCause::kMemory);
}

// Jobs seldom reach their bounds: an explicit limit above the memory is meant.
TEST_F(MemoryLedgerTest, ALimitAboveTheContainersMemoryCounts) {
  MemoryLedger ledger{1000,
                      {.available = [] { return 500; },
                       .used = [] { return 0; },
                       .capacity = 80}};
  Reservation one;
  EXPECT_TRUE(ledger.Reserve(Estimate(90, 0), one).ok());
}

TEST_F(MemoryLedgerTest, MoreThanTheMachineHasNowIsRefusedForNow) {
  // Jobs use 50 of the 80 that they could take.
  available_ = 30;
  used_ = 550;
  Reservation one;
  EXPECT_TRUE(Reserve(80, 0, one).ok());
  EXPECT_EQ(WaitCauseOf(Reserve(81, 0, one)), WaitCause::kMemory);
  EXPECT_EQ(ledger_.Availability(81), MemoryAvailability::kHeldByOthers);
  EXPECT_EQ(ledger_.reserved_bytes(), 80u) << "as it was";
}

TEST_F(MemoryLedgerTest, WarmMemoryGivesWay) {
  std::vector<Reservation> warm(3);
  for (Reservation& reservation : warm) {
    ASSERT_TRUE(Reserve(30, 0, reservation).ok());
    reservation.Rest();
  }
  ledger_.SetReclaim([&] {
    if (warm.empty()) return false;
    warm.erase(warm.begin());
    return true;
  });
  Reservation one;
  ASSERT_TRUE(Reserve(40, 0, one).ok());
  EXPECT_EQ(warm.size(), 2u) << "no more than needed";
  EXPECT_TRUE(absl::IsResourceExhausted(Reserve(101, 0, one)));
  EXPECT_EQ(warm.size(), 2u) << "in vain";
}

TEST_F(MemoryLedgerTest, MemoryOfOtherJobsIsRefusedForNow) {
  auto other = std::make_unique<Reservation>();
  ASSERT_TRUE(Reserve(60, 0, *other).ok());
  Reservation one;
  const absl::Status refused = Reserve(50, 0, one);
  EXPECT_EQ(WaitCauseOf(refused), WaitCause::kMemory) << refused;
  EXPECT_EQ(BytesNeededBy(refused), 50u);
  EXPECT_EQ(ledger_.Availability(50), MemoryAvailability::kHeldByJobs);
  other.reset();
  EXPECT_EQ(ledger_.Availability(50), MemoryAvailability::kFree);
  EXPECT_TRUE(Reserve(50, 0, one).ok());
}

TEST_F(MemoryLedgerTest, WarmMemoryCountsAsRoom) {
  Reservation warm;
  ASSERT_TRUE(Reserve(60, 0, warm).ok());
  warm.Rest();
  EXPECT_EQ(ledger_.Availability(100), MemoryAvailability::kFree);
}

TEST_F(MemoryLedgerTest, TellsWhenMemoryIsGivenBack) {
  int told = 0;
  uint64_t left = 0;
  ledger_.SetOnRelease([&] {
    ++told;
    left = ledger_.reserved_bytes();
  });
  Reservation one;
  Reservation two;
  ASSERT_TRUE(Reserve(20, 30, one).ok());
  ASSERT_TRUE(Reserve(10, 0, two).ok());
  EXPECT_EQ(told, 0);
  one.Rest();
  EXPECT_EQ(told, 1);
  EXPECT_EQ(left, 10u) << "no longer reserved";
  one = {};
  EXPECT_EQ(told, 1) << "warm memory was free already";
  two = {};
  EXPECT_EQ(told, 2);
  EXPECT_EQ(left, 0u);
  ledger_.SetOnRelease(nullptr);
}

strategy::MemoryEstimate OnGpu(int number, uint64_t bytes, bool kept = false) {
  strategy::MemoryEstimate estimate = Estimate(10, 0);
  estimate.Add("model", bytes, kept, {.gpu = number});
  return estimate;
}

TEST_F(MemoryLedgerTest, EachGpuHasALimitOfItsOwn) {
  ledger_.AddGpu(0, 1000);
  ledger_.AddGpu(1, 2000);
  Reservation one;
  Reservation two;
  Reservation other;
  ASSERT_TRUE(ledger_.Reserve(OnGpu(0, 700), one).ok());
  EXPECT_EQ(ledger_.reserved_bytes(), 10u) << "the host's alone";
  const absl::Status full = ledger_.Reserve(OnGpu(0, 301), two);
  EXPECT_EQ(WaitCauseOf(full), WaitCause::kGpuMemory) << full;
  EXPECT_THAT(std::string(full.message()), HasSubstr("cuda:0 (model 301 B)"));
  EXPECT_EQ(ledger_.reserved_bytes(), 10u) << "nothing is reserved by half";
  EXPECT_TRUE(ledger_.Reserve(OnGpu(1, 2000), other).ok());
  const absl::Status never = ledger_.Reserve(OnGpu(0, 1001), two);
  EXPECT_TRUE(absl::IsResourceExhausted(never)) << never;
  EXPECT_EQ(WaitCauseOf(never), WaitCause::kNone);
  // A reservation can change, and be given back.
  EXPECT_TRUE(ledger_.Reserve(OnGpu(0, 1000), one).ok());
  EXPECT_EQ(ledger_.gpus().at(0).taken_bytes, 1000u);
  one = {};
  EXPECT_EQ(ledger_.gpus().at(0).taken_bytes, 0u);
  EXPECT_TRUE(ledger_.Reserve(OnGpu(0, 301), two).ok());
}

TEST_F(MemoryLedgerTest, WarmMemoryOfAGpuIsTakenBack) {
  ledger_.AddGpu(0, 1000);
  Reservation warm;
  ASSERT_TRUE(ledger_.Reserve(OnGpu(0, 600, /*kept=*/true), warm).ok());
  warm.Rest();
  EXPECT_EQ(ledger_.gpus().at(0).taken_bytes, 600u);
  ledger_.SetReclaim([&] {
    if (warm.estimate().shares.empty()) return false;
    warm = {};
    return true;
  });
  Reservation one;
  EXPECT_TRUE(ledger_.Reserve(OnGpu(0, 900), one).ok());
  EXPECT_EQ(ledger_.gpus().at(0).taken_bytes, 900u);
  ledger_.SetReclaim(nullptr);
}

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

// Pages that the first model leaves behind are used by the others.
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
