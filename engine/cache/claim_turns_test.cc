#include "engine/cache/claim_turns.h"

#include <atomic>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace hearth::cache {
namespace {

TEST(ClaimTurnsTest, ByNumberWhateverTheOrderOfArrival) {
  ClaimTurns turns(ClaimTurns::Order::kByNumber, 5);
  std::vector<int64_t> taken;
  std::vector<std::thread> threads;
  for (const int64_t number : {8, 6, 9, 7, 5}) {
    threads.emplace_back([&, number] {
      const auto turn = turns.Take(number, {});
      ASSERT_TRUE(turn.ok());
      taken.push_back(number);  // Guarded by the turn.
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(taken, (std::vector<int64_t>{5, 6, 7, 8, 9}));
}

TEST(ClaimTurnsTest, InAnyOrderOneAtATime) {
  ClaimTurns turns(ClaimTurns::Order::kAny);
  int inside = 0;
  std::vector<std::thread> threads;
  for (int64_t number = 10; number > 0; --number) {
    threads.emplace_back([&, number] {
      for (int i = 0; i < 100; ++i) {
        const auto turn = turns.Take(number, {});
        ASSERT_TRUE(turn.ok());
        EXPECT_EQ(++inside, 1);
        --inside;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ClaimTurnsTest, AStopEndsTheWait) {
  ClaimTurns turns(ClaimTurns::Order::kByNumber);
  std::stop_source stop;
  std::thread waiter([&] {
    EXPECT_TRUE(absl::IsCancelled(turns.Take(1, stop.get_token()).status()));
  });
  stop.request_stop();
  waiter.join();
  EXPECT_TRUE(turns.Take(0, stop.get_token()).ok()) << "there is no wait";
}

TEST(ClaimTurnsTest, AMovedTurnIsPassedOnOnce) {
  ClaimTurns turns(ClaimTurns::Order::kByNumber);
  std::optional<ClaimTurns::Turn> kept;
  {
    auto turn = turns.Take(0, {});
    ASSERT_TRUE(turn.ok());
    kept.emplace(*std::move(turn));
  }
  std::atomic<bool> released = false;
  std::thread waiter([&] {
    EXPECT_TRUE(turns.Take(1, {}).ok());
    EXPECT_TRUE(released);
  });
  released = true;
  kept.reset();
  waiter.join();
  EXPECT_TRUE(turns.Take(2, {}).ok());
}

}  // namespace
}  // namespace hearth::cache
