// GIDS beyond the suite that all strategies share: savings of its parts,
// independence of threads and timing, scores that jobs share, failing reads,
// and stops.

#include <cerrno>
#include <fstream>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/strategy/gids/gids_fixture.h"
#include "engine/strategy/kinds.h"
#include "engine/strategy/strategy.h"
#include "engine/train/train_step.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/conformance/test_pass.h"

namespace hearth::strategy {
namespace {

using hearth::testing::Measured;
using ::testing::HasSubstr;

// ---- Its parts

TEST_F(GidsTest, HitsAndReadsDependOnNoWidth) {
  const GidsOptions options = {
      .cpu_cache_bytes = 60 * kRowBytes,
      .window_cache_bytes = 100 * kRowBytes,
  };
  const Outcome narrow = Run(*Make(options), MakePass(0));
  ASSERT_TRUE(narrow.status.ok()) << narrow.status;
  EXPECT_GT(narrow.buffered(), 0);
  EXPECT_GT(narrow.cached(), 0);
  for (const auto& [merge_max, staging, depth] : {std::tuple{1, uint64_t{0}, 1},
                                                  {2, uint64_t{1}, 3},
                                                  {32, uint64_t{1} << 30, 64},
                                                  {5, uint64_t{100000}, 2}}) {
    GidsOptions other = options;
    other.merge_max = merge_max;
    other.staging_bytes = staging;
    other.io_depth = depth;
    const Outcome wide =
        Run(*Make(other, {.samplers = 4, .extractors = 3}), MakePass(0));
    ASSERT_TRUE(wide.status.ok()) << wide.status;
    EXPECT_EQ(wide.batches, narrow.batches);
    EXPECT_EQ(wide.buffered(), narrow.buffered());
    EXPECT_EQ(wide.cached(), narrow.cached());
    EXPECT_EQ(wide.read(), narrow.read());
    EXPECT_EQ(wide.report.overlap->bypassed, narrow.report.overlap->bypassed);
  }
}

TEST_F(GidsTest, TheWindowKeepsWhatRandomEvictionLoses) {
  const auto hits = [&](int64_t window) {
    return Run(*Make(CacheOf(120, window)), MakePass(0)).cached();
  };
  EXPECT_GT(hits(2), hits(0));
}

TEST_F(GidsTest, AWindowOfAllBatchesKeepsEveryRowThatComesAgain) {
  const Outcome outcome = Run(*Make(CacheOf(kNodes, 1000)), MakePass(0));
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_LE(outcome.read(), kNodes);
  EXPECT_EQ(outcome.report.overlap->bypassed, 0);
}

TEST_F(GidsTest, RowsStayFromPassToPass) {
  const auto strategy = Make(CacheOf(kNodes, 8));
  EXPECT_GT(Run(*strategy, MakePass(0)).read(), 0);
  const Outcome again = Run(*strategy, MakePass(0));
  EXPECT_EQ(again.read(), 0);
  EXPECT_EQ(*again.report.bytes_read, 0);
  EXPECT_EQ(again.batches, Expected(MakePass(0)));
  const Outcome valid = Run(*strategy, MakePass(7, valid_));
  EXPECT_EQ(valid.batches, Expected(MakePass(7, valid_)));
}

TEST_F(GidsTest, LargerBatchesOfALaterPassMakeTheCacheGrow) {
  const auto strategy = Make({});
  EXPECT_TRUE(Run(*strategy, MakePass(0)).status.ok());
  Pass larger = MakePass(0);
  larger.batch_size = 200;
  const Outcome outcome = Run(*strategy, larger);
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(outcome.batches, Expected(larger));
}

TEST_F(GidsTest, BatchesAreReadTogetherWithinTheLimits) {
  const GidsOptions one = {
      .cpu_cache_bytes = 0, .window_cache_bytes = 0, .merge_max = 1};
  const Outcome alone = Run(*Make(one), MakePass(0));
  EXPECT_EQ(alone.report.overlap->merged, alone.report.batches);
  const GidsOptions tight = {
      .cpu_cache_bytes = 0, .window_cache_bytes = 0, .staging_bytes = 1};
  const Outcome tightly = Run(*Make(tight), MakePass(0));
  EXPECT_EQ(tightly.report.overlap->merged, tightly.report.batches);
}

TEST_F(GidsTest, ABatchJoinsThoseThatAreBeingRead) {
  const auto strategy = Make({.cpu_cache_bytes = 0,
                              .window_cache_bytes = 0,
                              .window = 0,
                              .io_depth = 4096});
  // So slow a disk that batches are sampled while others are read. No read may
  // wait for another batch: a batch joins after a read of those before it.
  hooked_.SetHook([](int64_t /*attempt*/) {
    absl::SleepFor(absl::Milliseconds(1));
    return 0;
  });
  const Outcome outcome = Run(*strategy, MakePass(0));
  hooked_.SetHook(nullptr);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_GT(outcome.report.overlap->merged, outcome.report.batches);
  EXPECT_EQ(outcome.batches, Expected(MakePass(0)));
}

// ---- The constant buffer

TEST_F(GidsTest, EveryWayToChooseHotNodesDeliversTheSame) {
  const std::vector<std::string> expected = Expected(MakePass(0));
  std::map<HotNodes, int64_t> buffered;
  for (const HotNodes hot :
       {HotNodes::kReversePageRank, HotNodes::kOutDegree, HotNodes::kFrequency,
        HotNodes::kRandom, HotNodes::kFile}) {
    GidsOptions options = {.cpu_cache_bytes = 100 * kRowBytes, .hot = hot};
    if (hot == HotNodes::kFile) {
      options.hot_file = HotFile({5, 4, 5, 3, 599});
    }
    const Outcome outcome = Run(*Make(options), MakePass(0));
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_EQ(outcome.batches, expected);
    EXPECT_GT(outcome.buffered(), 0);
    buffered[hot] = outcome.buffered();
  }
  EXPECT_GT(buffered[HotNodes::kReversePageRank], buffered[HotNodes::kRandom]);
  EXPECT_GE(buffered[HotNodes::kFrequency],
            buffered[HotNodes::kReversePageRank])
      << "the epoch that was counted";
}

TEST_F(GidsTest, ABufferOfAllRowsReadsNothing) {
  const Outcome outcome =
      Run(*Make({.cpu_cache_bytes = uint64_t{1} << 30}), MakePass(0));
  EXPECT_EQ(outcome.read(), 0);
  EXPECT_EQ(outcome.buffered(), outcome.report.rows_needed);
  EXPECT_TRUE(plans_.List()->empty()) << "nothing had to be ranked";
}

TEST_F(GidsTest, ScoresAreSharedByJobsOfTheSameTrainingNodes) {
  const GidsOptions options = {.cpu_cache_bytes = 100 * kRowBytes};
  auto first = *New(options);
  const PreparationReport made = *Prepare(*first);
  EXPECT_FALSE(made.reused);
  EXPECT_THAT(made.plan, HasSubstr("gids-"));
  // Another size of the buffer needs no new ranking.
  auto second = *New({.cpu_cache_bytes = 50 * kRowBytes});
  const PreparationReport found = *Prepare(*second);
  EXPECT_TRUE(found.reused);
  EXPECT_EQ(found.plan, made.plan);
  // Nor does the same strategy.
  EXPECT_TRUE(Prepare(*first)->reused);
  EXPECT_EQ(Run(*second, MakePass(1)).batches, Expected(MakePass(1)));
  EXPECT_EQ(plans_.List()->size(), 1u);
  auto counted =
      *New({.cpu_cache_bytes = 100 * kRowBytes, .hot = HotNodes::kFrequency});
  EXPECT_FALSE(Prepare(*counted)->reused);
  EXPECT_EQ(plans_.List()->size(), 2u);
}

TEST_F(GidsTest, DamagedScoresAreMadeAnew) {
  const GidsOptions options = {.cpu_cache_bytes = 100 * kRowBytes};
  const std::string plan = Prepare(**New(options))->plan;
  std::ofstream(io::JoinPath(io::JoinPath(folder_, plan), "scores")) << "?";
  const auto again = Prepare(**New(options));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_FALSE(again->reused);
  EXPECT_THAT(logged_, ::testing::Contains(HasSubstr("is made again")));
  EXPECT_TRUE(Prepare(**New(options))->reused);
}

TEST_F(GidsTest, HotFilesThatAreNoListsOfNodesAreRefused) {
  const auto prepared = [&](const std::string& path) {
    return Prepare(**New({.cpu_cache_bytes = 100 * kRowBytes,
                          .hot = HotNodes::kFile,
                          .hot_file = path}))
        .status();
  };
  EXPECT_TRUE(absl::IsNotFound(prepared("/nowhere.npy")));
  const absl::Status out_of_range = prepared(HotFile({1, 2, kNodes}));
  EXPECT_TRUE(absl::IsInvalidArgument(out_of_range)) << out_of_range;
  EXPECT_THAT(std::string(out_of_range.message()),
              HasSubstr("element 2 at byte 144 is 600"));
  EXPECT_TRUE(absl::IsInvalidArgument(prepared(HotFile({-1}))));
}

// ---- Refusals, errors and stops

TEST_F(GidsTest, APassThatWasNotPreparedOrMeasuredIsRefused) {
  const auto unprepared = *New({});
  EXPECT_TRUE(absl::IsFailedPrecondition(Run(*unprepared, MakePass(0)).status));
  PassReport report;
  const absl::Status status = Make({})->Run(
      MakePass(0),
      [](absl::Span<const train::BatchView>) { return absl::OkStatus(); }, {},
      report);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
}

TEST_F(GidsTest, OptionsOutOfRangeAreRefused) {
  for (const GidsOptions& options :
       {GidsOptions{.window = -1}, GidsOptions{.merge_max = 0},
        GidsOptions{.io_depth = -1}, GidsOptions{.io_depth = 1 << 20},
        GidsOptions{.hot = HotNodes::kFile}, GidsOptions{.hot_file = "/f"}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(New(options).status()));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(New({}, {.samplers = 0}).status()));
}

TEST_F(GidsTest, AnyReadThatFailsEndsThePassAndTheNextIsWhole) {
  const auto strategy = Make(CacheOf(100, 4), {.samplers = 2});
  const std::vector<std::string> expected = Expected(MakePass(0));
  for (const int64_t bad : {0, 1, 7, 40, 150}) {
    SCOPED_TRACE(bad);
    // Reads fail for good, since a failed read is tried again.
    hooked_.SetHook(
        [bad](int64_t attempt) { return attempt >= bad ? -EIO : 0; });
    const Outcome failed = Run(*strategy, MakePass(0));
    EXPECT_TRUE(absl::IsUnavailable(failed.status)) << failed.status;
    hooked_.SetHook(nullptr);
    const Outcome next = Run(*strategy, MakePass(0));
    ASSERT_TRUE(next.status.ok()) << next.status;
    EXPECT_EQ(next.batches, expected);
  }
}

TEST_F(GidsTest, AStopAtAnyTimeCancelsAndTheNextPassIsWhole) {
  const auto strategy = Make(CacheOf(100, 4), {.samplers = 2});
  const std::vector<std::string> expected = Expected(MakePass(0));
  for (int64_t look = 0; look < 400; look += 23) {
    std::stop_source stop;
    clock_.StopAt(look, stop);
    const Outcome stopped = Run(*strategy, MakePass(0), stop.get_token());
    EXPECT_TRUE(stopped.status.ok() || absl::IsCancelled(stopped.status))
        << stopped.status;
    if (look % 3 != 0) continue;
    const Outcome next = Run(*strategy, MakePass(0));
    ASSERT_TRUE(next.status.ok()) << next.status;
    EXPECT_EQ(next.batches, expected);
  }
}

TEST_F(GidsTest, AReaderThatWaitsForRoomEndsWithThePass) {
  GidsOptions options = CacheOf(0, 4);
  options.staging_bytes = 1;
  const auto strategy = Make(options);
  for (const bool fails : {true, false}) {
    std::stop_source stop;
    PassReport report;
    const absl::Status status = strategy->Run(
        Measured(*dataset_, MakePass(0)),
        [&](absl::Span<const train::BatchView>) -> absl::Status {
          // Meanwhile the queues fill, and the next batch has to wait.
          absl::SleepFor(absl::Milliseconds(100));
          if (fails) return absl::AbortedError("enough");
          stop.request_stop();
          return absl::OkStatus();
        },
        stop.get_token(), report);
    EXPECT_TRUE(fails ? absl::IsAborted(status) : absl::IsCancelled(status))
        << status;
  }
  EXPECT_EQ(Run(*strategy, MakePass(0)).batches, Expected(MakePass(0)));
}

TEST_F(GidsTest, PreparingCanFailAndBeStopped) {
  auto strategy = *New({.cpu_cache_bytes = 100 * kRowBytes});
  hooked_.SetHook([](int64_t /*attempt*/) { return -EIO; });
  EXPECT_TRUE(absl::IsUnavailable(Prepare(*strategy).status()));
  hooked_.SetHook(nullptr);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(
      strategy
          ->Prepare({Measured(*dataset_, MakePass(0))}, {}, stop.get_token())
          .status()));
  ASSERT_TRUE(Prepare(*strategy).ok());
  EXPECT_EQ(Run(*strategy, MakePass(0)).batches, Expected(MakePass(0)));
}

}  // namespace
}  // namespace hearth::strategy
