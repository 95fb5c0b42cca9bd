#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <map>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/io/testing/faults.h"
#include "engine/store/topology.h"
#include "engine/strategy/strategy.h"
#include "engine/strategy/testing/superbatch_harness.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/conformance/hooks.h"

// Ginex beyond the suite that all strategies share: that its cache is the
// optimal one, and how its passes go.

namespace hearth::strategy {

namespace {

using store::NodeId;

class GinexTest : public SuperbatchTest {};

// Tests of how many bytes are read.
class GinexReadsTest : public SuperbatchTest {
 protected:
  GinexReadsTest() : SuperbatchTest(kWideRowBytes) {}
};

int64_t Hits(const PassReport& report) {
  EXPECT_EQ(report.hits.size(), 1u);
  return report.hits.front().rows;
}

double Seconds(const PassReport& report, const std::string& phase) {
  for (const PhaseSeconds& entry : report.phases) {
    if (entry.name == phase) return entry.seconds;
  }
  ADD_FAILURE() << "no phase " << phase;
  return 0;
}

// ---- The cache

// The next batch from `batch` on that needs `node`; their number if none does.
size_t NextUse(const std::vector<std::vector<NodeId>>& batches, size_t batch,
               NodeId node) {
  while (batch < batches.size() &&
         std::count(batches[batch].begin(), batches[batch].end(), node) == 0) {
    ++batch;
  }
  return batch;
}

// Misses of Belady's cache of `capacity` rows that starts empty and decides
// after each batch which of its rows and the batch's to keep.
int64_t BeladyMisses(const std::vector<std::vector<NodeId>>& batches,
                     size_t capacity) {
  std::vector<NodeId> inside;
  int64_t misses = 0;
  for (size_t i = 0; i < batches.size(); ++i) {
    std::multimap<size_t, NodeId> by_next_use;
    for (const NodeId node : batches[i]) {
      if (std::count(inside.begin(), inside.end(), node) > 0) continue;
      ++misses;
      by_next_use.emplace(NextUse(batches, i + 1, node), node);
    }
    for (const NodeId node : inside) {
      by_next_use.emplace(NextUse(batches, i + 1, node), node);
    }
    inside.clear();
    for (const auto& [next, node] : by_next_use) {
      if (inside.size() < capacity) inside.push_back(node);
    }
  }
  return misses;
}

// The misses if each superbatch starts with an empty cache.
int64_t OptimalReads(const std::vector<std::vector<NodeId>>& batches,
                     size_t superbatch, size_t capacity) {
  int64_t misses = 0;
  for (size_t first = 0; first < batches.size(); first += superbatch) {
    const size_t end = std::min(first + superbatch, batches.size());
    misses += BeladyMisses({batches.begin() + static_cast<ptrdiff_t>(first),
                            batches.begin() + static_cast<ptrdiff_t>(end)},
                           capacity);
  }
  return misses;
}

TEST_F(GinexReadsTest, ReadsWhatTheOptimalCacheMissesAndNotAByteMore) {
  const Outcome expected = Expected(MakePass(0));
  ASSERT_EQ(expected.batches.size(), 12u);
  for (const int64_t superbatch : {1, 3, 5, 12, 100}) {
    for (const int64_t rows : {0, 1, 7, 60, 150, 300}) {
      SCOPED_TRACE(absl::StrCat(superbatch, " batches, ", rows, " rows"));
      const auto strategy =
          Make(GinexOptions{.cpu_cache_bytes = CacheOf(rows, kWideRowBytes),
                            .neighbor_cache_bytes = kAllNeighbors,
                            .superbatch = superbatch},
               {.samplers = 2, .extractors = 2});
      const Outcome outcome = Run(*strategy, MakePass(0));
      ASSERT_TRUE(outcome.status.ok()) << outcome.status;
      EXPECT_EQ(outcome.batches, expected.batches);
      const int64_t optimal =
          OptimalReads(expected.nodes, static_cast<size_t>(superbatch),
                       static_cast<size_t>(rows));
      EXPECT_EQ(*outcome.report.rows_read, optimal);
      EXPECT_EQ(*outcome.report.bytes_read, optimal * kWideRowBytes);
      EXPECT_EQ(Hits(outcome.report), outcome.report.rows_needed - optimal);
    }
  }
}

TEST_F(GinexReadsTest, ListsThatAreNotCachedAreReadFromDisk) {
  int64_t least = INT64_MAX;
  for (const uint64_t bytes : {uint64_t{1}, kTable + 5000, kAllNeighbors}) {
    const auto strategy =
        Make(GinexOptions{.cpu_cache_bytes = CacheOf(300, kWideRowBytes),
                          .neighbor_cache_bytes = bytes,
                          .superbatch = 100});
    const Outcome outcome = Run(*strategy, MakePass(0));
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    const int64_t of_lists =
        *outcome.report.bytes_read - *outcome.report.rows_read * kWideRowBytes;
    EXPECT_LT(of_lists, least) << bytes;
    least = of_lists;
  }
  EXPECT_EQ(least, 0);
}

TEST_F(GinexTest, AutoTakesTheWholeEpochWhereThereIsRoom) {
  const GinexOptions chosen = {.cpu_cache_bytes = CacheOf(60),
                               .neighbor_cache_bytes = kAllNeighbors};
  GinexOptions whole = chosen;
  whole.superbatch = 12;
  const Outcome by_profile = Run(*Make(chosen), MakePass(0));
  const Outcome told = Run(*Make(whole), MakePass(0));
  ASSERT_TRUE(by_profile.status.ok()) << by_profile.status;
  EXPECT_EQ(by_profile.batches, told.batches);
  EXPECT_EQ(*by_profile.report.bytes_read, *told.report.bytes_read);
}

// Disk space for the eight batches that are profiled, and few more.
TEST_F(GinexTest, AutoTakesWhatFitsOnTheDisk) {
  const GinexOptions options = {.cpu_cache_bytes = CacheOf(60)};
  const Outcome roomy = Run(*Make(options), MakePass(0));
  faulty_.LimitSpace(100 << 10);
  const Outcome tight = Run(*Make(options), MakePass(0));
  EXPECT_TRUE(tight.status.ok()) << tight.status;
  EXPECT_EQ(tight.batches, roomy.batches);
  EXPECT_GT(*tight.report.rows_read, *roomy.report.rows_read);
}

// ---- Passes

TEST_F(GinexTest, PassesFollowEachOther) {
  const auto strategy =
      Make(GinexOptions{.cpu_cache_bytes = CacheOf(50), .superbatch = 5},
           {.samplers = 2, .extractors = 1});
  for (const uint64_t key : {0, 1, 0}) {
    EXPECT_EQ(Run(*strategy, MakePass(key)).batches,
              Expected(MakePass(key)).batches);
    Pass valid = MakePass(key);
    valid.order = valid_.get();
    valid.sampler.fanouts = {-1};
    EXPECT_EQ(Run(*strategy, valid).batches, Expected(valid).batches);
  }
}

TEST_F(GinexTest, ResumesAtAnyBatch) {
  const auto strategy =
      Make(GinexOptions{.cpu_cache_bytes = CacheOf(50), .superbatch = 5});
  const std::vector<std::string> all = Expected(MakePass(0)).batches;
  for (int64_t first = 0; first <= 13; ++first) {
    const Outcome outcome = Run(*strategy, MakePass(0, first));
    EXPECT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_EQ(outcome.batches,
              std::vector<std::string>(
                  all.begin() + std::min<int64_t>(first, 12), all.end()));
  }
}

TEST_F(GinexTest, ReportsItsPhasesAndStages) {
  const auto strategy =
      Make(GinexOptions{.cpu_cache_bytes = CacheOf(50), .superbatch = 5},
           {.samplers = 2, .extractors = 3});
  const PassReport report = Run(*strategy, MakePass(0)).report;
  for (const char* phase : {"prepare", "inspect", "sample", "changeset",
                            "switch", "cache_update", "execute"}) {
    EXPECT_GT(Seconds(report, phase), 0) << phase;
    EXPECT_LT(Seconds(report, phase), report.seconds) << phase;
  }
  EXPECT_LE(Seconds(report, "sample"), Seconds(report, "inspect"));
  EXPECT_LE(Seconds(report, "inspect") + Seconds(report, "switch") +
                Seconds(report, "execute"),
            report.seconds);
  std::map<std::string, int> threads;
  for (const auto& stage : report.stages) threads[stage.name] = stage.threads;
  EXPECT_EQ(threads, (std::map<std::string, int>{{"sample", 2},
                                                 {"load", 3},
                                                 {"locate", 1},
                                                 {"read", 3},
                                                 {"assemble", 1},
                                                 {"train", 1}}));
}

TEST_F(GinexTest, CrossCountsRankListsWhereThereIsAPartition) {
  const GinexOptions options = {.cpu_cache_bytes = CacheOf(50),
                                .neighbor_rank = NeighborRank::kCross,
                                .superbatch = 5};
  EXPECT_TRUE(absl::IsInvalidArgument(New(options, {}).status()));
  partition_ = MakePartition();
  const auto strategy = Make(options);
  const Outcome outcome = Run(*strategy, MakePass(0));
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(outcome.batches, Expected(MakePass(0)).batches);
  EXPECT_EQ(Leftovers(), std::vector<std::string>{"neighbor_cache.cross"});
}

TEST_F(GinexTest, OptionsOutOfRangeAreRefused) {
  const PipelineOptions one;
  for (const auto& [options, pipeline] :
       {std::pair{GinexOptions{.superbatch = -1}, one},
        {GinexOptions{.io_depth = 0}, one},
        {GinexOptions{.io_depth = 1 << 20}, one},
        {GinexOptions{}, PipelineOptions{.samplers = 0}},
        {GinexOptions{}, PipelineOptions{.extractors = 0}}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(New(options, pipeline).status()));
  }
}

}  // namespace

// The files that ginex keeps on disk, and reads, files and stops that fail it.

namespace {

using ::testing::HasSubstr;

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
      // A failure to remove the empty folder is not reported.
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
    // Prepared first: building the cache reads the dataset's indices, not files
    // of its own.
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
