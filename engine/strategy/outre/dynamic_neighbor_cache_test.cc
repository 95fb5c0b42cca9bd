#include "engine/strategy/outre/dynamic_neighbor_cache.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/base/random.h"
#include "engine/sample/seed_order.h"
#include "engine/sample/stored_sampler.h"
#include "engine/store/topology.h"
#include "engine/strategy/pass.h"
#include "engine/strategy/strategy.h"
#include "engine/strategy/superbatch/neighbor_lists.h"
#include "gtest/gtest.h"
#include "tests/fixtures/memory_partition.h"

namespace hearth::strategy {

namespace {

using hearth::testing::MemoryPartition;
using store::NodeId;

constexpr int64_t kNodes = 500;

// Some nodes are isolated, others have up to seven neighbors; nodes are in
// parts at random, the last part has one node.
class MacroBatchListsTest : public ::testing::TestWithParam<bool> {
 protected:
  MacroBatchListsTest() {
    RandomStream random(3, RandomPurpose::kGenerator);
    for (NodeId node = 0; node < kNodes; ++node) {
      for (uint64_t left = random.Below(8); left > 0; --left) {
        indices_.push_back(static_cast<int64_t>(random.Below(kNodes)));
      }
      indptr_.push_back(static_cast<int64_t>(indices_.size()));
      part_of_.push_back(static_cast<uint16_t>(random.Below(6)));
    }
    part_of_[77] = 6;
    narrow_.assign(indices_.begin(), indices_.end());
    store::Topology topology = {indptr_, absl::Span<const int64_t>(indices_)};
    if (!GetParam()) topology.indices = absl::Span<const int32_t>(narrow_);
    partition_ = std::make_unique<MemoryPartition>(topology, part_of_,
                                                   std::vector<NodeId>());
  }

  void ExpectListsOf(const std::vector<uint16_t>& parts,
                     const MacroBatchLists& lists) const {
    std::vector<bool> chosen(7);
    for (const uint16_t part : parts) chosen[part] = true;
    for (NodeId node = 0; node < kNodes; ++node) {
      const std::optional<sample::NeighborList> list = lists.Find(node);
      ASSERT_EQ(list.has_value(), chosen[part_of_[node]]) << node;
      if (!list.has_value()) continue;
      for (int64_t i = indptr_[node]; i < indptr_[node + 1]; ++i) {
        EXPECT_EQ((*list)[i - indptr_[node]], indices_[i]);
      }
    }
  }

  std::vector<int64_t> indptr_ = {0};
  std::vector<int64_t> indices_;
  std::vector<int32_t> narrow_;
  std::vector<uint16_t> part_of_;
  std::unique_ptr<MemoryPartition> partition_;
};

TEST_P(MacroBatchListsTest, HoldsTheListsOfItsPartsAndNoOthers) {
  for (const auto& parts :
       {std::vector<uint16_t>{}, {6}, {2}, {4, 0}, {5, 6, 3, 1, 0, 2, 4}}) {
    const auto lists = MacroBatchLists::Read(*partition_, parts);
    ASSERT_TRUE(lists.ok()) << lists.status();
    ExpectListsOf(parts, **lists);
    (*lists)->Prefetch(5);
  }
}

TEST_P(MacroBatchListsTest, ReadsEachPartOnceAndTellsItsMemoryBefore) {
  for (const auto& parts :
       {std::vector<uint16_t>{}, {6}, {4, 0}, {5, 6, 3, 1, 0, 2, 4}}) {
    const int64_t reads = partition_->reads();
    const auto lists = MacroBatchLists::Read(*partition_, parts);
    ASSERT_TRUE(lists.ok()) << lists.status();
    EXPECT_EQ(partition_->reads() - reads, std::ssize(parts));
    EXPECT_EQ((*lists)->memory_bytes(),
              MacroBatchLists::MemoryBytes(*partition_, parts));
  }
}

TEST_P(MacroBatchListsTest, EndsWithTheErrorOfAPart) {
  partition_->SetHook([](int part) {
    return part == 4 ? absl::DataLossError("part 4") : absl::OkStatus();
  });
  EXPECT_TRUE(MacroBatchLists::Read(*partition_, {1, 2}).ok());
  EXPECT_EQ(MacroBatchLists::Read(*partition_, {1, 4, 2}).status(),
            absl::DataLossError("part 4"));
}

INSTANTIATE_TEST_SUITE_P(NarrowAndWide, MacroBatchListsTest, ::testing::Bool());

// Macro batches of 3, 1, 4 and 2 seeds, whatever the key.
class FixedOrder final : public sample::SeedOrder {
 public:
  int64_t size() const override { return 10; }
  std::vector<store::NodeId> Epoch(uint64_t /*epoch_key*/) const override {
    std::vector<store::NodeId> nodes(10);
    std::iota(nodes.begin(), nodes.end(), 0);
    return nodes;
  }
  std::vector<int64_t> Places(uint64_t epoch_key) const override {
    return Epoch(epoch_key);
  }
  std::vector<sample::MacroBatch> MacroBatches(
      uint64_t /*epoch_key*/) const override {
    return {{3, {5, 2}}, {1, {0}}, {4, {1}}, {2, {7}}};
  }
};

PassMacroBatches MacroBatchesOf(const sample::SeedOrder& order,
                                int64_t batch_size) {
  Pass pass;
  pass.order = &order;
  pass.batch_size = batch_size;
  return PassMacroBatches(pass);
}

std::vector<MacroBatchRange> Ranges(const sample::SeedOrder& order,
                                    int64_t batch_size) {
  const PassMacroBatches macro_batches = MacroBatchesOf(order, batch_size);
  std::vector<MacroBatchRange> ranges;
  for (int64_t batch = 0; batch < macro_batches.num_batches(); ++batch) {
    ranges.push_back(macro_batches.Of(batch));
  }
  return ranges;
}

TEST(PassMacroBatchesTest, ABatchHasThoseOfItsSeeds) {
  const FixedOrder order;
  using Expected = std::vector<MacroBatchRange>;
  EXPECT_EQ(Ranges(order, 1), (Expected{{0, 1},
                                        {0, 1},
                                        {0, 1},
                                        {1, 2},
                                        {2, 3},
                                        {2, 3},
                                        {2, 3},
                                        {2, 3},
                                        {3, 4},
                                        {3, 4}}));
  EXPECT_EQ(Ranges(order, 4), (Expected{{0, 2}, {2, 3}, {3, 4}}));
  EXPECT_EQ(Ranges(order, 7), (Expected{{0, 3}, {2, 4}}));
  EXPECT_EQ(Ranges(order, 10), (Expected{{0, 4}}));
  EXPECT_EQ(Ranges(order, 100), (Expected{{0, 4}}));
}

TEST(PassMacroBatchesTest, SeedsInAnotherOrderHaveNone) {
  const auto order = sample::NewSequentialOrder({1, 2, 3});
  const PassMacroBatches macro_batches = MacroBatchesOf(*order, 2);
  EXPECT_TRUE(macro_batches.all().empty());
  EXPECT_EQ(macro_batches.num_batches(), 0);
  EXPECT_EQ(macro_batches.Of(1), MacroBatchRange());
}

constexpr int64_t kCacheNodes = 400;
constexpr int kParts = 20;
constexpr uint64_t kPlenty = uint64_t{1} << 30;

// 400 nodes in 20 parts, all of them seeds, in macro batches of three parts and
// batches of 37 seeds: most batches straddle two macro batches.
class DynamicNeighborCacheTest : public ::testing::Test {
 protected:
  DynamicNeighborCacheTest() {
    RandomStream random(5, RandomPurpose::kGenerator);
    for (NodeId node = 0; node < kCacheNodes; ++node) {
      seeds_.push_back(node);
      for (uint64_t left = random.Below(9); left > 0; --left) {
        indices_.push_back(static_cast<int32_t>(random.Below(kCacheNodes)));
      }
      indptr_.push_back(static_cast<int64_t>(indices_.size()));
      part_of_.push_back(static_cast<uint16_t>(random.Below(kParts)));
    }
    partition_ = std::make_shared<MemoryPartition>(
        store::Topology{indptr_, absl::Span<const int32_t>(indices_)}, part_of_,
        seeds_);
    order_ = sample::NewPartitionOrder(
        seeds_,
        {.parts = part_of_, .parts_per_macro_batch = 3, .data_seed = 1});
  }

  Pass MakePass(uint64_t epoch_key = 0, int64_t batch_size = 37) const {
    Pass pass;
    pass.order = order_.get();
    pass.batch_size = batch_size;
    pass.epoch_key = epoch_key;
    return pass;
  }

  // A cache that has reserved all bytes that the pass needs.
  DynamicNeighborCache RoomyCache(const Pass& pass) const {
    DynamicNeighborCache cache(partition_, Clock::Real());
    EXPECT_GT(cache.Reserve({pass}, kPlenty, {}), 0u);
    return cache;
  }

  // The parts of the macro batches of a batch.
  static std::set<uint16_t> PartsOf(const PassMacroBatches& macro_batches,
                                    int64_t batch) {
    std::set<uint16_t> parts;
    const MacroBatchRange range = macro_batches.Of(batch);
    for (int64_t i = range.first; i < range.end; ++i) {
      const auto& of = macro_batches.all()[i].parts;
      parts.insert(of.begin(), of.end());
    }
    return parts;
  }

  // The parts whose lists are in `lists`; expects all lists of each part.
  std::set<uint16_t> PartsIn(const sample::BatchLists& lists) const {
    std::set<uint16_t> inside;
    std::set<uint16_t> outside;
    for (NodeId node = 0; node < kCacheNodes; ++node) {
      const bool found = std::any_of(
          lists.begin(), lists.end(),
          [&](const auto& some) { return some->Find(node).has_value(); });
      (found ? inside : outside).insert(part_of_[node]);
    }
    for (const uint16_t part : inside) EXPECT_FALSE(outside.contains(part));
    return inside;
  }

  // Bytes of macro batches `first` .. `end - 1`, up to the last one.
  uint64_t Bytes(const PassMacroBatches& macro_batches, int64_t first,
                 int64_t end) const {
    uint64_t bytes = 0;
    for (int64_t i = first; i < std::min(end, std::ssize(macro_batches.all()));
         ++i) {
      bytes += MacroBatchLists::MemoryBytes(*partition_,
                                            macro_batches.all()[i].parts);
    }
    return bytes;
  }

  std::vector<int64_t> indptr_ = {0};
  std::vector<int32_t> indices_;
  std::vector<uint16_t> part_of_;
  std::vector<NodeId> seeds_;
  std::shared_ptr<MemoryPartition> partition_;
  std::unique_ptr<sample::SeedOrder> order_;
};

TEST_F(DynamicNeighborCacheTest, BatchesHoldThePartsOfTheirMacroBatches) {
  for (const int64_t batch_size : {1, 37, 60, 300, 400}) {
    const Pass pass = MakePass(2, batch_size);
    DynamicNeighborCache cache = RoomyCache(pass);
    const auto feed = cache.NewFeed(pass);
    const PassMacroBatches macro_batches(pass);
    for (int64_t batch = 0; batch < macro_batches.num_batches(); ++batch) {
      const auto lists = feed->Take(batch);
      ASSERT_TRUE(lists.ok()) << lists.status();
      EXPECT_EQ(PartsIn(*lists), PartsOf(macro_batches, batch));
    }
  }
}

TEST_F(DynamicNeighborCacheTest, EachMacroBatchIsReadOnceAndShared) {
  const Pass pass = MakePass(0, 5);
  DynamicNeighborCache cache = RoomyCache(pass);
  const auto feed = cache.NewFeed(pass);
  const PassMacroBatches macro_batches(pass);
  MacroBatchRange last;
  sample::BatchLists last_lists;
  for (int64_t batch = 0; batch < macro_batches.num_batches(); ++batch) {
    const auto lists = *feed->Take(batch);
    const MacroBatchRange range = macro_batches.Of(batch);
    EXPECT_TRUE(range != last || lists == last_lists);
    EXPECT_TRUE(*feed->Take(batch) == lists) << "another shard";
    last = range;
    last_lists = lists;
  }
  EXPECT_EQ(partition_->reads(), kParts);
  EXPECT_EQ(feed->tally().requests, kParts);
  int64_t bytes = 0;
  for (int part = 0; part < kParts; ++part) {
    bytes += static_cast<int64_t>(partition_->part_list_bytes(part));
  }
  EXPECT_EQ(feed->tally().bytes_read, bytes);
}

// Batches keep their lists until there is no memory for more. Then another
// thread releases them, so late that a feed which does not wait would be seen.
TEST_F(DynamicNeighborCacheTest, NoMoreIsHeldThanWasReserved) {
  const Pass pass = MakePass();
  DynamicNeighborCache cache(partition_, Clock::Real());
  const uint64_t reserved = cache.Reserve({pass}, kPlenty, {});
  const auto feed = cache.NewFeed(pass);
  const PassMacroBatches macro_batches(pass);
  std::vector<sample::BatchLists> given;
  std::set<std::weak_ptr<const sample::NeighborLists>, std::owner_less<>> seen;
  uint64_t most = 0;
  partition_->SetHook([&](int part) {
    uint64_t bytes = 0;
    for (const auto& lists : seen) {
      const auto held = lists.lock();
      if (held == nullptr) continue;
      bytes += static_cast<const MacroBatchLists&>(*held).memory_bytes();
    }
    for (int64_t i = 0; i < std::ssize(macro_batches.all()); ++i) {
      const auto& parts = macro_batches.all()[i].parts;
      if (std::count(parts.begin(), parts.end(), part) == 0) continue;
      bytes += Bytes(macro_batches, i, i + 1);
    }
    most = std::max(most, bytes);
    return absl::OkStatus();
  });
  int waits = 0;
  int64_t first_held = 0;
  for (int64_t batch = 0; batch < macro_batches.num_batches(); ++batch) {
    const MacroBatchRange range = macro_batches.Of(batch);
    std::thread release;
    if (Bytes(macro_batches, first_held, range.end) > reserved) {
      ++waits;
      first_held = range.first;
      release = std::thread([&] {
        absl::SleepFor(absl::Milliseconds(20));
        given.clear();
      });
    }
    auto lists = feed->Take(batch);
    if (release.joinable()) release.join();
    ASSERT_TRUE(lists.ok()) << lists.status();
    seen.insert(lists->begin(), lists->end());
    given.push_back(*std::move(lists));
  }
  EXPECT_GT(waits, 1);
  EXPECT_GT(most, reserved / 2);
  EXPECT_LE(most, reserved);
}

TEST_F(DynamicNeighborCacheTest, TheNextMacroBatchIsReadWhileABatchIsSampled) {
  const Pass pass = MakePass(0, 5);
  DynamicNeighborCache cache = RoomyCache(pass);
  const auto feed = cache.NewFeed(pass);
  const PassMacroBatches macro_batches(pass);
  // No lists are released until a batch of the macro batch after the next is
  // taken.
  std::vector<sample::BatchLists> held;
  for (int64_t batch = 0; macro_batches.Of(batch).end <= 2; ++batch) {
    auto lists = feed->Take(batch);
    ASSERT_TRUE(lists.ok()) << lists.status();
    held.push_back(*std::move(lists));
  }
  EXPECT_EQ(partition_->reads(), 6);
}

TEST_F(DynamicNeighborCacheTest, AnInterruptEndsTheWaitForRoom) {
  const Pass pass = MakePass();
  DynamicNeighborCache cache = RoomyCache(pass);
  const auto feed = cache.NewFeed(pass);
  const PassMacroBatches macro_batches(pass);
  std::vector<sample::BatchLists> held;
  std::thread interrupt;
  absl::Status status;
  for (int64_t batch = 0; batch < macro_batches.num_batches(); ++batch) {
    // Lists are never released, so that Take waits in the end.
    if (batch == 2) interrupt = std::thread([&] { feed->Interrupt(); });
    auto lists = feed->Take(batch);
    status = lists.status();
    if (!status.ok()) break;
    held.push_back(*std::move(lists));
  }
  interrupt.join();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
}

TEST_F(DynamicNeighborCacheTest, WhatDoesNotFitIsLeftOut) {
  const Pass known = MakePass(0, 5);
  DynamicNeighborCache cache = RoomyCache(known);
  // Reserve was not told of this pass with larger batches.
  const Pass pass = MakePass(0, 300);
  const auto feed = cache.NewFeed(pass);
  const PassMacroBatches macro_batches(pass);
  const std::set<uint16_t> all = PartsOf(macro_batches, 0);
  const auto lists = feed->Take(0);
  ASSERT_TRUE(lists.ok()) << lists.status();
  const std::set<uint16_t> inside = PartsIn(*lists);
  EXPECT_FALSE(inside.empty());
  EXPECT_LT(inside.size(), all.size());
  EXPECT_TRUE(
      std::includes(all.begin(), all.end(), inside.begin(), inside.end()));
  EXPECT_EQ(PartsIn(*cache.NewFeed(pass)->Take(0)), inside) << "always so";
}

TEST_F(DynamicNeighborCacheTest, AReadThatFailedTakesNoRoom) {
  const Pass pass = MakePass();
  DynamicNeighborCache cache = RoomyCache(pass);
  const auto feed = cache.NewFeed(pass);
  const PassMacroBatches macro_batches(pass);
  partition_->SetHook([](int /*part*/) { return absl::DataLossError("bad"); });
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(feed->Take(0).status(), absl::DataLossError("bad"));
  }
  partition_->SetHook(nullptr);
  for (int64_t batch = 0; batch < macro_batches.num_batches(); ++batch) {
    EXPECT_EQ(PartsIn(*feed->Take(batch)), PartsOf(macro_batches, batch));
  }
}

TEST_F(DynamicNeighborCacheTest, ReservesForTheLargestOfAllBatches) {
  uint64_t expected = 0;
  std::vector<Pass> passes;
  for (const uint64_t key : {0, 1, 2}) {
    passes.push_back(MakePass(key));
    const PassMacroBatches macro_batches(passes.back());
    for (int64_t batch = 0; batch < macro_batches.num_batches(); ++batch) {
      const MacroBatchRange range = macro_batches.Of(batch);
      expected =
          std::max(expected, Bytes(macro_batches, range.first, range.end + 1));
    }
  }
  std::vector<std::string> log;
  PreparationListener listener;
  listener.log = [&](const std::string& text) { log.push_back(text); };
  const auto reserve = [&](uint64_t budget_bytes) {
    DynamicNeighborCache cache(partition_, Clock::Real());
    return cache.Reserve(passes, budget_bytes, listener);
  };
  EXPECT_EQ(reserve(kPlenty), expected);
  EXPECT_EQ(reserve(2 * expected), expected);
  EXPECT_EQ(reserve(2 * expected - 1), 0u);
  ASSERT_EQ(log.size(), 3u);
  EXPECT_EQ(log[1].find("the dynamic neighbor cache takes at most"), 0u);
  EXPECT_EQ(log[2].find("there is no dynamic neighbor cache"), 0u);
}

TEST_F(DynamicNeighborCacheTest, WithoutRoomOrPartsNothingIsRead) {
  const auto sequential = sample::NewSequentialOrder(seeds_);
  Pass evaluation = MakePass();
  evaluation.order = sequential.get();
  DynamicNeighborCache none(partition_, Clock::Real());
  std::vector<std::string> log;
  PreparationListener listener;
  listener.log = [&](const std::string& text) { log.push_back(text); };
  EXPECT_EQ(none.Reserve({evaluation}, kPlenty, listener), 0u);
  EXPECT_TRUE(log.empty());
  EXPECT_TRUE(none.NewFeed(MakePass())->Take(0)->empty());
  DynamicNeighborCache roomy = RoomyCache(MakePass());
  EXPECT_TRUE(roomy.NewFeed(evaluation)->Take(3)->empty());
  EXPECT_EQ(partition_->reads(), 0);
}

}  // namespace

}  // namespace hearth::strategy
