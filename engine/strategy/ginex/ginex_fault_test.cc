// The files that ginex keeps on disk, and reads, files and stops that fail it.

#include <cerrno>
#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/io/faulty_file_system.h"
#include "engine/strategy/strategy.h"
#include "engine/strategy/superbatch/superbatch_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/conformance/hooked_dataset.h"
#include "tests/conformance/stopping_clock.h"

namespace hearth::strategy {
namespace {

using ::testing::HasSubstr;

class GinexTest : public SuperbatchTest {};

// ---- Files

TEST_F(GinexTest, FilesGoWithThePassAndTheStrategy) {
  auto strategy =
      Make(GinexOptions{.cpu_cache_bytes = CacheOf(50), .superbatch = 5});
  EXPECT_TRUE(Run(*strategy, MakePass(0)).status.ok());
  EXPECT_EQ(Leftovers(), std::vector<std::string>{"neighbor_cache"});
  strategy.reset();
  EXPECT_EQ(Leftovers(), std::vector<std::string>{});
}

TEST_F(GinexTest, AFullDiskEndsThePassAndLeavesNothing) {
  const std::vector<std::string> expected = Expected(MakePass(0)).batches;
  bool fits = false;
  for (uint64_t bytes = 100; !fits; bytes += bytes / 3) {
    const auto strategy =
        Make(GinexOptions{.cpu_cache_bytes = CacheOf(50), .superbatch = 5},
             {.samplers = 2, .extractors = 2});
    faulty_.LimitSpace(bytes);
    const Outcome outcome = Run(*strategy, MakePass(0));
    faulty_.LimitSpace(uint64_t{1} << 40);
    fits = outcome.status.ok();
    if (!fits) {
      EXPECT_TRUE(absl::IsResourceExhausted(outcome.status)) << outcome.status;
    }
    for (const std::string& name : Leftovers()) {
      EXPECT_EQ(name, "neighbor_cache");
    }
    EXPECT_EQ(Run(*strategy, MakePass(0)).batches, expected);
  }
}

TEST_F(GinexTest, EveryCallOfTheFileSystemMayFail) {
  const std::vector<std::string> expected = Expected(MakePass(0)).batches;
  for (const bool for_good : {false, true}) {
    for (int64_t nth = 1;; nth += 1 + nth / 8) {
      const auto strategy =
          Make(GinexOptions{.cpu_cache_bytes = CacheOf(50), .superbatch = 5},
               {.samplers = 2, .extractors = 2});
      faulty_.Inject({.nth = nth, .for_good = for_good});
      const Outcome outcome = Run(*strategy, MakePass(0));
      const bool hit = faulty_.hits() > 0;
      faulty_.Clear();
      // Nobody is told if the empty folder cannot be removed.
      if (hit && !outcome.status.ok()) {
        EXPECT_TRUE(absl::IsUnavailable(outcome.status)) << outcome.status;
        ASSERT_LE(outcome.batches.size(), expected.size());
        EXPECT_TRUE(std::equal(outcome.batches.begin(), outcome.batches.end(),
                               expected.begin()));
      } else {
        EXPECT_EQ(outcome.batches, expected) << nth;
      }
      const Outcome again = Run(*strategy, MakePass(0));
      EXPECT_TRUE(again.status.ok()) << again.status;
      EXPECT_EQ(again.batches, expected);
      if (!hit) break;
    }
  }
}

TEST_F(GinexTest, DamageToItsFilesIsNeverTrainedOn) {
  const std::vector<std::string> expected = Expected(MakePass(0)).batches;
  bool damaged = false;
  for (int64_t nth = 1;; nth += 1 + nth / 8) {
    const auto strategy =
        Make(GinexOptions{.cpu_cache_bytes = CacheOf(50), .superbatch = 5});
    // Prepared first: the indices that the cache is built from are not its own.
    Pass none = MakePass(0, 11);
    ASSERT_TRUE(Run(*strategy, none).status.ok());
    faulty_.Inject({.nth = nth,
                    .for_good = true,
                    .effect = io::Effect::kCorruptRead,
                    .only = io::Operation::kRead});
    const Outcome outcome = Run(*strategy, MakePass(0));
    const bool hit = faulty_.hits() > 0;
    faulty_.Clear();
    if (!hit) {
      EXPECT_EQ(outcome.batches, expected);
      break;
    }
    damaged = true;
    EXPECT_TRUE(absl::IsDataLoss(outcome.status)) << outcome.status;
    EXPECT_THAT(std::string(outcome.status.message()),
                HasSubstr(scratch_.path()));
    EXPECT_THAT(std::string(outcome.status.message()), HasSubstr("at byte"));
    EXPECT_TRUE(std::equal(outcome.batches.begin(), outcome.batches.end(),
                           expected.begin()));
  }
  EXPECT_TRUE(damaged);
}

// ---- Reads

TEST_F(GinexTest, AReadThatFailsForGoodEndsThePassAndNoMore) {
  const std::vector<std::string> expected = Expected(MakePass(0)).batches;
  bool of_features = false;
  bool of_indices = false;
  for (int64_t nth = 0;; nth += 1 + nth / 3) {
    const auto strategy =
        Make(GinexOptions{.cpu_cache_bytes = CacheOf(50),
                          .neighbor_cache_bytes = kTable + 5000,
                          .superbatch = 5,
                          .io_depth = 2},
             {.samplers = 2, .extractors = 2});
    hooked_.SetHook(
        [nth](int64_t attempt) { return attempt < nth ? 0 : -EIO; });
    const Outcome outcome = Run(*strategy, MakePass(0));
    const bool hit = hooked_.attempts() > nth;
    hooked_.SetHook(nullptr);
    if (!hit) {
      EXPECT_EQ(outcome.batches, expected);
      break;
    }
    EXPECT_TRUE(absl::IsUnavailable(outcome.status)) << outcome.status;
    const std::string message(outcome.status.message());
    of_features = of_features || message.find(".features.") != message.npos;
    of_indices = of_indices || message.find(".indices.") != message.npos;
    EXPECT_TRUE(std::equal(outcome.batches.begin(), outcome.batches.end(),
                           expected.begin()));
    EXPECT_EQ(Run(*strategy, MakePass(0)).batches, expected);
  }
  EXPECT_TRUE(of_features);
  EXPECT_TRUE(of_indices);
}

TEST_F(GinexTest, AReadThatFailsOnceIsMadeAgain) {
  for (const int64_t nth : {0, 9, 60}) {
    const auto strategy = Make(GinexOptions{.superbatch = 5});
    hooked_.SetHook(
        [nth](int64_t attempt) { return attempt == nth ? -EIO : 0; });
    EXPECT_EQ(Run(*strategy, MakePass(0)).batches,
              Expected(MakePass(0)).batches);
    hooked_.SetHook(nullptr);
  }
}

// ---- Stops

TEST_F(GinexTest, AStopInAnyStateOfAnyStageEndsThePassAndNoMore) {
  const std::vector<std::string> expected = Expected(MakePass(0)).batches;
  const auto strategy = Make(GinexOptions{.cpu_cache_bytes = CacheOf(50),
                                          .neighbor_cache_bytes = kTable + 5000,
                                          .superbatch = 5},
                             {.samplers = 2, .extractors = 2});
  for (int64_t look = 0;; look += 7) {
    std::stop_source stop;
    clock_.StopAt(look, stop);
    const Outcome outcome = Run(*strategy, MakePass(0), stop.get_token());
    const bool asked = stop.stop_requested();
    if (!asked || outcome.status.ok()) break;
    ASSERT_TRUE(absl::IsCancelled(outcome.status)) << outcome.status;
    EXPECT_TRUE(std::equal(outcome.batches.begin(), outcome.batches.end(),
                           expected.begin()));
    ASSERT_LT(look, 100000);
  }
  std::stop_source unused;
  clock_.StopAt(-1, unused);
  EXPECT_EQ(Run(*strategy, MakePass(0)).batches, expected);
}

TEST_F(GinexTest, AStopInAnyReadEndsThePassAndNoMore) {
  const auto strategy = Make(
      GinexOptions{
          .cpu_cache_bytes = CacheOf(50), .superbatch = 5, .io_depth = 2},
      {.samplers = 2, .extractors = 2});
  for (int64_t nth = 0;; nth += 1 + nth / 6) {
    std::stop_source stop;
    hooked_.SetHook([&stop, nth](int64_t attempt) {
      if (attempt == nth) stop.request_stop();
      return 0;
    });
    const Outcome outcome = Run(*strategy, MakePass(0), stop.get_token());
    if (!stop.stop_requested()) break;
    // The last batch may have been on its way already.
    if (!outcome.status.ok()) {
      ASSERT_TRUE(absl::IsCancelled(outcome.status)) << outcome.status;
    }
  }
  hooked_.SetHook(nullptr);
  EXPECT_EQ(Run(*strategy, MakePass(0)).batches, Expected(MakePass(0)).batches);
}

TEST_F(GinexTest, AStopBeforeItBeginsIsCancelled) {
  const auto strategy = Make(GinexOptions{.cpu_cache_bytes = CacheOf(50)});
  std::stop_source stop;
  stop.request_stop();
  const Outcome outcome = Run(*strategy, MakePass(0), stop.get_token());
  EXPECT_TRUE(absl::IsCancelled(outcome.status)) << outcome.status;
  EXPECT_TRUE(outcome.batches.empty());
}

}  // namespace
}  // namespace hearth::strategy
