#include "engine/job/memory_ledger.h"

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
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
  absl::Status Reserve(uint64_t kept, uint64_t other, Reservation& reservation,
                       std::stop_token stop = {}) {
    return ledger_.Reserve(Estimate(kept, other), reservation, std::move(stop),
                           [this](const std::string&) {
                             if (!waits_.HasBeenNotified()) waits_.Notify();
                           });
  }

  uint64_t available_ = 0;
  uint64_t used_ = 500;
  MemoryLedger ledger_{100,
                       {.available = [this] { return available_; },
                        .used = [this] { return used_; }}};
  absl::Notification waits_;
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
  EXPECT_EQ(ledger_.reserved_bytes(), 0u);
}

TEST_F(MemoryLedgerTest, MoreThanTheMachineHasIsRefused) {
  // Jobs use 50 of the 80 that they could take.
  available_ = 30;
  used_ = 550;
  Reservation one;
  EXPECT_TRUE(Reserve(80, 0, one).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(Reserve(81, 0, one)));
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

TEST_F(MemoryLedgerTest, WaitsForOthers) {
  auto other = std::make_unique<Reservation>();
  ASSERT_TRUE(Reserve(60, 0, *other).ok());
  std::jthread waiting([&] {
    Reservation one;
    EXPECT_TRUE(Reserve(50, 0, one).ok());
  });
  waits_.WaitForNotification();
  other.reset();
}

TEST_F(MemoryLedgerTest, AWaitEndsWhenStopped) {
  Reservation other;
  ASSERT_TRUE(Reserve(60, 0, other).ok());
  std::stop_source stop;
  std::jthread waiting([&] {
    Reservation one;
    EXPECT_TRUE(absl::IsCancelled(Reserve(50, 0, one, stop.get_token())));
  });
  waits_.WaitForNotification();
  stop.request_stop();
}

TEST_F(MemoryLedgerTest, NobodyWaitsForWhoWaits) {
  Reservation one;
  Reservation other;
  ASSERT_TRUE(Reserve(50, 0, one).ok());
  ASSERT_TRUE(Reserve(50, 0, other).ok());
  // Whoever comes second is refused, and so makes room for the first.
  absl::Status first;
  std::jthread waiting([&] {
    first = Reserve(60, 0, one);
    one = {};
  });
  waits_.WaitForNotification();
  const absl::Status second = Reserve(60, 0, other);
  other = {};
  waiting.join();
  EXPECT_NE(first.ok(), second.ok()) << first << "; " << second;
  EXPECT_EQ(ledger_.reserved_bytes(), 0u);
}

}  // namespace
}  // namespace hearth::job
