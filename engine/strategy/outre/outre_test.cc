// Outre beyond the suite that all strategies share: its neighbor caches, and
// how its passes go.

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/io/testing/faults.h"
#include "engine/sample/seed_order.h"
#include "engine/strategy/strategy.h"
#include "engine/strategy/testing/superbatch_harness.h"
#include "gtest/gtest.h"
#include "tests/conformance/hooks.h"
#include "tests/fixtures/memory_partition.h"

namespace hearth::strategy {
namespace {

class OutreTest : public SuperbatchTest {
 protected:
  OutreTest() {
    partition_ = parts_;
    const std::vector<uint16_t> part_of = *parts_->LoadParts();
    std::vector<uint16_t> train_parts;
    const std::vector<store::NodeId> train = dataset_.LoadSplit()->train;
    for (const store::NodeId node : train) {
      train_parts.push_back(part_of[node]);
    }
    order_ = sample::NewPartitionOrder(
        train,
        {.parts = train_parts, .parts_per_macro_batch = 3, .data_seed = 3});
  }

  // 12 batches of four macro batches of 45 seeds.
  Pass PartedPass(uint64_t epoch_key) const {
    Pass pass = MakePass(epoch_key);
    pass.order = order_.get();
    pass.batch_size = 15;
    return pass;
  }

  static std::map<std::string, int64_t> ListHitsOf(const PassReport& report) {
    std::map<std::string, int64_t> hits;
    for (const ListHits& level : report.list_hits) {
      hits[level.level] = level.lists;
    }
    return hits;
  }

  const std::shared_ptr<hearth::testing::MemoryPartition> parts_ =
      MakePartition();
  std::unique_ptr<sample::SeedOrder> order_;
};

// Memory for two macro batches of about 6.5 KB, and for four of five other
// lists.
const OutreOptions kOptions = {.cpu_cache_bytes = CacheOf(50),
                               .neighbor_cache_bytes = 27'000,
                               .superbatch = 5};

TEST_F(OutreTest, ListsAreFoundInTheStaticThenTheDynamicCacheThenOnDisk) {
  const Outcome expected = Expected(PartedPass(0));
  OutreOptions tight = kOptions;
  tight.neighbor_cache_bytes = kTable + 5000;
  const Outcome without = Run(*Make(tight), PartedPass(0));
  const Outcome with = Run(*Make(kOptions), PartedPass(0));
  for (const Outcome& outcome : {without, with}) {
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_EQ(outcome.batches, expected.batches);
  }
  const auto hits_without = ListHitsOf(without.report);
  const auto hits_with = ListHitsOf(with.report);
  EXPECT_GT(hits_without.at("neighbor_cache"), 0);
  EXPECT_EQ(hits_without.at("dynamic_neighbor_cache"), 0);
  EXPECT_GT(hits_with.at("neighbor_cache"), 0);
  EXPECT_GT(hits_with.at("dynamic_neighbor_cache"), 0);
  EXPECT_LT(*with.report.lists_read, *without.report.lists_read);
  EXPECT_EQ(hits_with.at("neighbor_cache") +
                hits_with.at("dynamic_neighbor_cache") +
                *with.report.lists_read,
            hits_without.at("neighbor_cache") + *without.report.lists_read);
}

TEST_F(OutreTest, WidthsChangeNothingThatIsHitOrRead) {
  const Outcome narrow = Run(*Make(kOptions), PartedPass(1));
  ASSERT_TRUE(narrow.status.ok()) << narrow.status;
  for (const PipelineOptions& pipeline :
       {PipelineOptions{.samplers = 2, .extractors = 1},
        PipelineOptions{.samplers = 4, .extractors = 3}}) {
    const Outcome wide = Run(*Make(kOptions, pipeline), PartedPass(1));
    ASSERT_TRUE(wide.status.ok()) << wide.status;
    EXPECT_EQ(wide.batches, narrow.batches);
    EXPECT_EQ(ListHitsOf(wide.report), ListHitsOf(narrow.report));
    EXPECT_EQ(*wide.report.lists_read, *narrow.report.lists_read);
    EXPECT_EQ(*wide.report.rows_read, *narrow.report.rows_read);
    EXPECT_EQ(*wide.report.bytes_read, *narrow.report.bytes_read);
  }
}

TEST_F(OutreTest, WhatIsPreparedForSaysHowListsShareTheirMemory) {
  const auto strategy = Make(kOptions);
  std::vector<std::string> log;
  const std::vector<Pass> passes = {PartedPass(0), PartedPass(1)};
  PreparationListener listener;
  listener.log = [&](const std::string& text) { log.push_back(text); };
  const auto report = strategy->Prepare(passes, listener, {});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->plan.empty());
  ASSERT_EQ(log.size(), 1u);
  EXPECT_EQ(log[0].find("the dynamic neighbor cache takes at most"), 0u);
  ASSERT_TRUE(strategy->Prepare(passes, {}, {}).ok());
  EXPECT_EQ(Run(*strategy, PartedPass(1)).batches,
            Expected(PartedPass(1)).batches);
}

TEST_F(OutreTest, EvaluationUsesTheStaticCacheAlone) {
  const auto strategy = Make(kOptions, {.samplers = 2, .extractors = 1});
  for (const uint64_t key : {0, 1}) {
    EXPECT_EQ(Run(*strategy, PartedPass(key)).batches,
              Expected(PartedPass(key)).batches);
    Pass valid = MakePass(key);
    valid.order = valid_.get();
    const Outcome outcome = Run(*strategy, valid);
    EXPECT_EQ(outcome.batches, Expected(valid).batches);
    EXPECT_EQ(ListHitsOf(outcome.report).at("dynamic_neighbor_cache"), 0);
  }
}

TEST_F(OutreTest, ResumesAtAnyBatch) {
  const auto strategy = Make(kOptions);
  const std::vector<std::string> all = Expected(PartedPass(0)).batches;
  for (int64_t first = 0; first <= 12; ++first) {
    Pass pass = PartedPass(0);
    pass.first_batch = first;
    const Outcome outcome = Run(*strategy, pass);
    EXPECT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_EQ(outcome.batches,
              std::vector<std::string>(all.begin() + first, all.end()));
  }
}

TEST_F(OutreTest, APartThatCannotBeReadEndsThePassAndNoMore) {
  const std::vector<std::string> expected = Expected(PartedPass(0)).batches;
  bool fails = true;
  for (int64_t nth = 0; fails; ++nth) {
    const auto strategy = Make(kOptions, {.samplers = 2, .extractors = 2});
    const int64_t before = parts_->reads();
    parts_->SetHook([&](int /*part*/) {
      return parts_->reads() - before <= nth ? absl::OkStatus()
                                             : absl::DataLossError("part");
    });
    const Outcome outcome = Run(*strategy, PartedPass(0));
    fails = parts_->reads() - before > nth;
    parts_->SetHook(nullptr);
    EXPECT_EQ(outcome.status,
              fails ? absl::DataLossError("part") : absl::OkStatus());
    EXPECT_TRUE(std::equal(outcome.batches.begin(), outcome.batches.end(),
                           expected.begin()));
    EXPECT_EQ(Run(*strategy, PartedPass(0)).batches, expected);
  }
}

TEST_F(OutreTest, AStopInAnyStateOfAnyStageEndsThePassAndNoMore) {
  const std::vector<std::string> expected = Expected(PartedPass(0)).batches;
  const auto strategy = Make(kOptions, {.samplers = 2, .extractors = 2});
  for (int64_t look = 0;; look += 7) {
    std::stop_source stop;
    clock_.StopAt(look, stop);
    const Outcome outcome = Run(*strategy, PartedPass(0), stop.get_token());
    const bool asked = stop.stop_requested();
    if (!asked || outcome.status.ok()) break;
    ASSERT_TRUE(absl::IsCancelled(outcome.status)) << outcome.status;
    EXPECT_TRUE(std::equal(outcome.batches.begin(), outcome.batches.end(),
                           expected.begin()));
    ASSERT_LT(look, 100000);
  }
  std::stop_source unused;
  clock_.StopAt(-1, unused);
  EXPECT_EQ(Run(*strategy, PartedPass(0)).batches, expected);
}

TEST_F(OutreTest, EveryCallOfTheFileSystemMayFail) {
  const std::vector<std::string> expected = Expected(PartedPass(0)).batches;
  for (int64_t nth = 1;; nth += 1 + nth / 8) {
    const auto strategy = Make(kOptions, {.samplers = 2, .extractors = 2});
    faulty_.Inject({.nth = nth, .for_good = true});
    const Outcome outcome = Run(*strategy, PartedPass(0));
    const bool hit = faulty_.hits() > 0;
    faulty_.Clear();
    EXPECT_EQ(outcome.status.ok(), outcome.batches == expected);
    if (!outcome.status.ok()) {
      EXPECT_TRUE(absl::IsUnavailable(outcome.status)) << outcome.status;
    }
    EXPECT_EQ(Run(*strategy, PartedPass(0)).batches, expected);
    if (!hit) break;
  }
}

TEST_F(OutreTest, NeedsAPartition) {
  partition_ = nullptr;
  const absl::Status status = New(kOptions, {}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_NE(status.message().find("order partition"), absl::string_view::npos);
}

TEST_F(OutreTest, OptionsOutOfRangeAreRefused) {
  for (const OutreOptions& options :
       {OutreOptions{.superbatch = -1}, OutreOptions{.io_depth = 0},
        OutreOptions{.io_depth = 1 << 20}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(New(options, {}).status()));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(
      New(kOptions, PipelineOptions{.samplers = 0}).status()));
}

}  // namespace
}  // namespace hearth::strategy
