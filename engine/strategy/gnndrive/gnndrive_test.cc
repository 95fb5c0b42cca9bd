// GNNDrive beyond the suite that all strategies share: budgets down to the
// least that works, what stays between passes, batches out of order, and reads
// that fail, hang or meet a stop.

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <functional>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/io/read_queue.h"
#include "engine/sample/neighbor_sampler.h"
#include "engine/sample/seed_order.h"
#include "engine/store/dataset.h"
#include "engine/strategy/kinds.h"
#include "engine/strategy/strategy.h"
#include "engine/train/train_step.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/conformance/hooks.h"
#include "tests/conformance/test_pass.h"
#include "tests/fixtures/graphs.h"

namespace hearth::strategy {
namespace {

using hearth::testing::Fingerprint;
using hearth::testing::Measured;
using ::testing::HasSubstr;
using Shards = absl::Span<const train::BatchView>;

// 700 bytes: across sectors, so that batches take several reads.
constexpr int64_t kRowBytes = 175 * 4;
constexpr int64_t kNodes = 600;

class GnndriveTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const auto path = hearth::testing::ImportPlantedGraph(
        {.num_nodes = kNodes, .feature_dim = kRowBytes / 4},
        ::testing::TempDir() + "gnndrive");
    ASSERT_TRUE(path.ok()) << path.status();
    dataset_ = store::Dataset::Open(io::FileSystem::Posix(), *path)->release();
    const store::Split split = *dataset_->LoadSplit();
    train_ = sample::NewShuffledOrder(split.train, 3).release();
    valid_ = sample::NewSequentialOrder(split.valid).release();
  }

  GnndriveTest()
      : queues_(*io::ReadQueues::Create({.kind = io::ReadQueueKind::kThreads})),
        hooked_(*dataset_) {}

  absl::StatusOr<std::unique_ptr<Strategy>> New(
      const StrategyOptions& options, const PipelineOptions& pipeline) {
    return NewStrategy(options, pipeline, hooked_,
                       {.read_queues = *queues_,
                        .clock = clock_,
                        .scratch_folder = ::testing::TempDir()});
  }

  std::unique_ptr<Strategy> Make(const StrategyOptions& options,
                                 const PipelineOptions& pipeline = {}) {
    auto strategy = New(options, pipeline);
    EXPECT_TRUE(strategy.ok()) << strategy.status();
    return *std::move(strategy);
  }

  static Pass MakePass(uint64_t epoch_key,
                       const sample::SeedOrder* order = train_) {
    return {.order = order,
            .sampler = {.fanouts = {4, 2}, .data_seed = 3},
            .batch_size = 30,
            .epoch_key = epoch_key};
  }

  struct Outcome {
    absl::Status status;
    std::vector<std::string> batches;
    PassReport report;
    int64_t largest = 0;
  };

  static Outcome Run(Strategy& strategy, const Pass& pass,
                     std::stop_token stop = {}) {
    Outcome outcome;
    outcome.status = strategy.Run(
        Measured(*dataset_, pass),
        [&](absl::Span<const train::BatchView> shards) {
          const train::BatchView& batch = shards.front();
          outcome.batches.push_back(hearth::testing::Fingerprint(batch));
          outcome.largest =
              std::max(outcome.largest,
                       static_cast<int64_t>(batch.sample.input_nodes.size()));
          return absl::OkStatus();
        },
        std::move(stop), outcome.report);
    return outcome;
  }

  // The batches that `memory` delivers.
  Outcome Expected(const Pass& pass) {
    return Run(*Make(MemoryOptions{}), pass);
  }

  void ExpectDelivers(Strategy& strategy, uint64_t epoch_key) {
    const Outcome outcome = Run(strategy, MakePass(epoch_key));
    EXPECT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_EQ(outcome.batches, Expected(MakePass(epoch_key)).batches);
  }

  static store::Dataset* dataset_;
  static sample::SeedOrder* train_;
  static sample::SeedOrder* valid_;
  const std::unique_ptr<io::ReadQueues> queues_;
  hearth::testing::HookedDataset hooked_;
  hearth::testing::StoppingClock clock_;
};

store::Dataset* GnndriveTest::dataset_ = nullptr;
sample::SeedOrder* GnndriveTest::train_ = nullptr;
sample::SeedOrder* GnndriveTest::valid_ = nullptr;

int64_t Hits(const PassReport& report) {
  EXPECT_EQ(report.hits.size(), 1u);
  return report.hits.front().rows;
}

// ---- Budgets

TEST_F(GnndriveTest, EveryBudgetDeliversTheSameDownToOneBatch) {
  const Outcome expected = Expected(MakePass(0));
  for (const int64_t slots :
       {expected.largest, expected.largest + 1, 2 * expected.largest, kNodes}) {
    for (const uint64_t cache_rows : {0, 1, 100}) {
      for (const int extractors : {1, 2, 4}) {
        const auto strategy =
            Make(GnndriveOptions{.cpu_cache_bytes = cache_rows * kRowBytes,
                                 .staging_bytes =
                                     static_cast<uint64_t>(slots * kRowBytes)},
                 {.samplers = 2, .extractors = extractors});
        const Outcome outcome = Run(*strategy, MakePass(0));
        ASSERT_TRUE(outcome.status.ok()) << outcome.status;
        ASSERT_EQ(outcome.batches, expected.batches);
        ASSERT_EQ(Hits(outcome.report) + *outcome.report.rows_read,
                  outcome.report.rows_needed);
      }
    }
  }
}

TEST_F(GnndriveTest, ExtractorsShrinkToFitAndAreReported) {
  const auto largest =
      static_cast<uint64_t>(Expected(MakePass(0)).largest * kRowBytes);
  for (const auto& [staging, extractors] :
       {std::pair{largest, 1}, {2 * largest - 1, 1}, {2 * largest, 2}}) {
    const auto strategy = Make(GnndriveOptions{.staging_bytes = staging},
                               {.samplers = 1, .extractors = 4});
    const Outcome outcome = Run(*strategy, MakePass(0));
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_EQ(outcome.report.stages[1].name, "extract");
    EXPECT_EQ(outcome.report.stages[1].threads, extractors);
  }
}

TEST_F(GnndriveTest, StagingForLessThanABatchIsRefusedWithTheNumbers) {
  const int64_t largest = Expected(MakePass(0)).largest;
  const auto strategy = Make(GnndriveOptions{
      .staging_bytes = static_cast<uint64_t>(largest * kRowBytes - 1)});
  const Outcome outcome = Run(*strategy, MakePass(0));
  EXPECT_TRUE(absl::IsResourceExhausted(outcome.status)) << outcome.status;
  EXPECT_THAT(std::string(outcome.status.message()),
              HasSubstr(absl::StrCat(largest, " input nodes")));
  EXPECT_EQ(outcome.report.batches, 0);
}

// Pass::batches always has the sizes of epoch key 0.
TEST_F(GnndriveTest, ABatchLargerThanAllSlotsIsBroughtTogetherInParts) {
  const int64_t slots = Expected(MakePass(0)).largest;
  for (const bool reorder : {false, true}) {
    const auto strategy =
        Make(GnndriveOptions{.staging_bytes =
                                 static_cast<uint64_t>(slots * kRowBytes),
                             .reorder = reorder},
             {.samplers = 2, .extractors = 3});
    bool larger = false;
    for (uint64_t key = 0; key < 8; ++key) {
      const Outcome expected = Expected(MakePass(key));
      larger = larger || expected.largest > slots;
      Outcome outcome = Run(*strategy, MakePass(key));
      ASSERT_TRUE(outcome.status.ok()) << outcome.status;
      EXPECT_EQ(Hits(outcome.report) + *outcome.report.rows_read,
                expected.report.rows_needed);
      // One extractor takes batches in the order in which sampling ends, which
      // may differ.
      EXPECT_THAT(outcome.batches,
                  ::testing::UnorderedElementsAreArray(expected.batches));
      if (!reorder) {
        EXPECT_EQ(outcome.batches, expected.batches);
      }
    }
    EXPECT_TRUE(larger) << "no batch was too large";
  }
}

TEST_F(GnndriveTest, RowsThatAllFitAreReadOnce) {
  const auto strategy = Make(GnndriveOptions{.cpu_cache_bytes = 1 << 30},
                             {.samplers = 2, .extractors = 3});
  const Outcome first = Run(*strategy, MakePass(0));
  EXPECT_LE(*first.report.rows_read, kNodes);
  EXPECT_GT(Hits(first.report), 0);
  // Rows are kept between passes, also for passes with another order of seeds.
  const Outcome again = Run(*strategy, MakePass(0));
  EXPECT_EQ(*again.report.rows_read, 0);
  EXPECT_EQ(*again.report.bytes_read, 0);
  EXPECT_EQ(Hits(again.report), again.report.rows_needed);
  EXPECT_EQ(again.batches, first.batches);
  const Outcome valid = Run(*strategy, MakePass(7, valid_));
  EXPECT_EQ(valid.batches, Expected(MakePass(7, valid_)).batches);
  const Outcome third = Run(*strategy, MakePass(0));
  EXPECT_EQ(*third.report.rows_read, 0);
}

// The margin covers small differences between orders of seeds.
TEST_F(GnndriveTest, RowsStayWhenOtherSeedsHaveBatchesOfTheSameSize) {
  const auto strategy = Make(GnndriveOptions{});
  EXPECT_TRUE(Run(*strategy, MakePass(0)).status.ok());
  const auto other = sample::NewShuffledOrder(dataset_->LoadSplit()->train, 4);
  Pass pass = MakePass(0, other.get());
  pass.first_batch = 11;  // The last one alone.
  const Outcome outcome = Run(*strategy, pass);
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(outcome.report.batches, 1);
  EXPECT_GT(Hits(outcome.report), 0) << "rows of the pass before";
}

TEST_F(GnndriveTest, LargerBatchesOfALaterPassMakeTheBufferGrow) {
  const auto strategy = Make(GnndriveOptions{});
  EXPECT_TRUE(Run(*strategy, MakePass(0)).status.ok());
  Pass larger = MakePass(0);
  larger.batch_size = 200;
  const Outcome outcome = Run(*strategy, larger);
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(outcome.batches, Expected(larger).batches);
  ExpectDelivers(*strategy, 0);
}

TEST_F(GnndriveTest, APassThatWasNotMeasuredIsRefused) {
  const auto strategy = Make(GnndriveOptions{});
  PassReport report;
  const absl::Status status = strategy->Run(
      MakePass(0), [](Shards) { return absl::OkStatus(); }, {}, report);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
}

TEST_F(GnndriveTest, OptionsOutOfRangeAreRefused) {
  const PipelineOptions one;
  for (const auto& [options, pipeline] :
       {std::pair{GnndriveOptions{.sample_queue = 0}, one},
        {GnndriveOptions{.train_queue = 0}, one},
        {GnndriveOptions{.io_depth = 0}, one},
        {GnndriveOptions{}, PipelineOptions{.samplers = 0}},
        {GnndriveOptions{}, PipelineOptions{.extractors = 0}}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(New(options, pipeline).status()));
  }
  const auto too_deep = Make(GnndriveOptions{.io_depth = 1 << 20});
  EXPECT_TRUE(absl::IsInvalidArgument(Run(*too_deep, MakePass(0)).status));
}

// ---- Out of order

TEST_F(GnndriveTest, ReorderedBatchesAreTheSameBatches) {
  const Outcome expected = Expected(MakePass(0));
  const auto largest = static_cast<uint64_t>(expected.largest * kRowBytes);
  for (const uint64_t staging : {uint64_t{0}, largest, 3 * largest}) {
    const auto strategy =
        Make(GnndriveOptions{.staging_bytes = staging, .reorder = true},
             {.samplers = 3, .extractors = 3});
    const Outcome outcome = Run(*strategy, MakePass(0));
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_THAT(outcome.batches,
                ::testing::UnorderedElementsAreArray(expected.batches));
  }
}

// The first read hangs until other batches have been trained.
TEST_F(GnndriveTest, ReorderedShardsComeOnceEach) {
  Pass pass = MakePass(0);
  pass.shards = 3;
  pass = Measured(*dataset_, pass);
  const auto shards = [&](const StrategyOptions& options) {
    std::multiset<std::string> seen;
    PassReport report;
    const absl::Status status = Make(options, {.samplers = 3, .extractors = 3})
                                    ->Run(
                                        pass,
                                        [&](Shards batch) {
                                          EXPECT_EQ(batch.size(), 3u);
                                          for (const auto& shard : batch) {
                                            seen.insert(Fingerprint(shard));
                                          }
                                          return absl::OkStatus();
                                        },
                                        {}, report);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(report.batches, 12);
    return seen;
  };
  EXPECT_EQ(shards(GnndriveOptions{.reorder = true}), shards(MemoryOptions{}));
}

TEST_F(GnndriveTest, ReorderedASlowReadHoldsUpNoOtherBatch) {
  const auto strategy =
      Make(GnndriveOptions{.cpu_cache_bytes = 1 << 20, .reorder = true},
           {.samplers = 1, .extractors = 2});
  absl::Notification others_trained;
  hooked_.SetHook([&](int64_t attempt) {
    if (attempt == 0) others_trained.WaitForNotification();
    return 0;
  });
  // Without neighbors no two batches share a row.
  Pass pass = MakePass(0);
  pass.sampler.fanouts = {};
  pass.batch_size = 100;
  pass = Measured(*dataset_, pass);
  std::vector<uint64_t> order;
  PassReport report;
  const absl::Status status = strategy->Run(
      pass,
      [&](absl::Span<const train::BatchView> shards) {
        const train::BatchView& batch = shards.front();
        order.push_back(batch.sample.key.batch);
        if (order.size() == 3) others_trained.Notify();
        return absl::OkStatus();
      },
      {}, report);
  EXPECT_TRUE(status.ok()) << status;
  ASSERT_EQ(order.size(), 4u);
  std::sort(order.begin(), order.end());
  EXPECT_EQ(order, (std::vector<uint64_t>{0, 1, 2, 3}));
}

// ---- Faults

// The nth read fails for good, for every n until there is none.
void FailEveryRead(hearth::testing::HookedDataset& hooked,
                   const std::function<std::unique_ptr<Strategy>()>& make,
                   const std::function<void(Strategy&, bool)>& check) {
  for (int64_t nth = 0;; nth = nth < 6 ? nth + 1 : 2 * nth) {
    const auto strategy = make();
    std::atomic<bool> hit = false;
    hooked.SetHook([&, nth](int64_t attempt) {
      if (attempt < nth) return 0;
      hit = true;
      return -EIO;
    });
    check(*strategy, true);
    hooked.SetHook(nullptr);
    check(*strategy, false);
    if (!hit) return;
    ASSERT_LT(nth, 1 << 20);
  }
}

TEST_F(GnndriveTest, AReadThatFailsForGoodEndsThePassAndNoMore) {
  const std::vector<std::string> expected = Expected(MakePass(0)).batches;
  FailEveryRead(
      hooked_,
      [&] {
        return Make(GnndriveOptions{.train_queue = 1, .io_depth = 2},
                    {.samplers = 2, .extractors = 3});
      },
      [&](Strategy& strategy, bool failing) {
        const Outcome outcome = Run(strategy, MakePass(0));
        if (failing && !outcome.status.ok()) {
          EXPECT_TRUE(absl::IsUnavailable(outcome.status)) << outcome.status;
          EXPECT_THAT(std::string(outcome.status.message()),
                      HasSubstr("node.features.npy"));
          ASSERT_LT(outcome.batches.size(), expected.size());
          EXPECT_TRUE(std::equal(outcome.batches.begin(), outcome.batches.end(),
                                 expected.begin()));
          return;
        }
        EXPECT_TRUE(outcome.status.ok()) << outcome.status;
        EXPECT_EQ(outcome.batches, expected);
      });
}

TEST_F(GnndriveTest, AReadThatFailsOnceIsMadeAgain) {
  for (const int64_t nth : {0, 3, 9}) {
    const auto strategy =
        Make(GnndriveOptions{}, {.samplers = 2, .extractors = 2});
    hooked_.SetHook(
        [nth](int64_t attempt) { return attempt == nth ? -EIO : 0; });
    ExpectDelivers(*strategy, 0);
    hooked_.SetHook(nullptr);
  }
}

// A batch that waits for rows of another batch's read gets that read's error.
TEST_F(GnndriveTest, AFailedReadReachesThoseWhoWaitForItsRows) {
  const auto strategy =
      Make(GnndriveOptions{}, {.samplers = 2, .extractors = 4});
  hooked_.SetHook([](int64_t) { return -EIO; });
  const Outcome outcome = Run(*strategy, MakePass(0));
  EXPECT_TRUE(absl::IsUnavailable(outcome.status)) << outcome.status;
  EXPECT_TRUE(outcome.batches.empty());
  hooked_.SetHook(nullptr);
  ExpectDelivers(*strategy, 1);
}

// ---- Stops

TEST_F(GnndriveTest, AStopInAnyStateOfAnyStageEndsThePassAndNoMore) {
  for (const bool reorder : {false, true}) {
    const int64_t largest = Expected(MakePass(0)).largest;
    const auto strategy = Make(
        GnndriveOptions{
            .cpu_cache_bytes = 1,
            .staging_bytes = static_cast<uint64_t>((largest + 20) * kRowBytes),
            .reorder = reorder,
            .sample_queue = 1,
            .train_queue = 1},
        {.samplers = 2, .extractors = 3});
    for (int64_t look = 0;; look += 7) {
      std::stop_source stop;
      clock_.StopAt(look, stop);
      const Outcome outcome = Run(*strategy, MakePass(0), stop.get_token());
      if (outcome.status.ok()) break;
      ASSERT_TRUE(absl::IsCancelled(outcome.status)) << outcome.status;
      ASSERT_LT(look, 100000);
    }
    std::stop_source unused;
    clock_.StopAt(-1, unused);
    const Outcome outcome = Run(*strategy, MakePass(0));
    EXPECT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_EQ(outcome.batches.size(), Expected(MakePass(0)).batches.size());
  }
}

TEST_F(GnndriveTest, AStopInAnyReadEndsThePassAndNoMore) {
  const auto strategy =
      Make(GnndriveOptions{.io_depth = 2}, {.samplers = 2, .extractors = 3});
  for (int64_t nth = 0;; nth += 3) {
    std::stop_source stop;
    hooked_.SetHook([&stop, nth](int64_t attempt) {
      if (attempt == nth) stop.request_stop();
      return 0;
    });
    const Outcome outcome = Run(*strategy, MakePass(nth), stop.get_token());
    if (!stop.stop_requested()) break;
    // The last batch may have been on its way already.
    if (!outcome.status.ok()) {
      ASSERT_TRUE(absl::IsCancelled(outcome.status)) << outcome.status;
    }
    ASSERT_LT(nth, 100000);
  }
  hooked_.SetHook(nullptr);
  ExpectDelivers(*strategy, 0);
}

// Slots are all held by batches that wait for the trainer, and an extractor
// waits for slots, when the trainer fails.
TEST_F(GnndriveTest, ATrainerThatFailsWakesExtractorsThatWaitForSlots) {
  const int64_t largest = Expected(MakePass(0)).largest;
  for (int64_t failing = 0; failing < 5; ++failing) {
    const auto strategy =
        Make(GnndriveOptions{.staging_bytes =
                                 static_cast<uint64_t>(largest * kRowBytes)},
             {.samplers = 2, .extractors = 1});
    int64_t seen = 0;
    PassReport report;
    EXPECT_EQ(strategy->Run(
                  Measured(*dataset_, MakePass(0)),
                  [&](absl::Span<const train::BatchView>) {
                    return seen++ == failing ? absl::AbortedError("enough")
                                             : absl::OkStatus();
                  },
                  {}, report),
              absl::AbortedError("enough"));
    EXPECT_EQ(report.batches, failing + 1);
    ExpectDelivers(*strategy, 0);
  }
}

}  // namespace
}  // namespace hearth::strategy
