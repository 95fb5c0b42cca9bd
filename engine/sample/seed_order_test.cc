#include "engine/sample/seed_order.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace hearth::sample {
namespace {

using Nodes = std::vector<store::NodeId>;

Nodes Ascending(int64_t count) {
  Nodes nodes(count);
  std::iota(nodes.begin(), nodes.end(), 100);
  return nodes;
}

TEST(ShuffledOrderTest, IsAPermutationOfTheSeeds) {
  const auto order = NewShuffledOrder(Ascending(1000), 1);
  Nodes epoch = order->Epoch(3);
  EXPECT_NE(epoch, Ascending(1000));
  std::sort(epoch.begin(), epoch.end());
  EXPECT_EQ(epoch, Ascending(1000));
}

TEST(ShuffledOrderTest, IsAFunctionOfSeedAndEpochKey) {
  const auto order = NewShuffledOrder(Ascending(100), 1);
  const auto same = NewShuffledOrder(Ascending(100), 1);
  const auto other = NewShuffledOrder(Ascending(100), 2);
  const Nodes second = order->Epoch(1);
  EXPECT_NE(order->Epoch(0), second);
  EXPECT_EQ(order->Epoch(1), second) << "depends on what was asked before";
  EXPECT_EQ(same->Epoch(1), second);
  EXPECT_NE(other->Epoch(1), second);
}

// Digests of jobs depend on this order.
TEST(ShuffledOrderTest, NeverChanges) {
  const auto order = NewShuffledOrder(Ascending(8), 42);
  EXPECT_EQ(order->Epoch(0), (Nodes{100, 101, 106, 105, 104, 103, 102, 107}));
  EXPECT_EQ(order->Epoch(3), (Nodes{105, 101, 102, 103, 100, 107, 106, 104}));
}

TEST(ShuffledOrderTest, EverySeedComesFirstEquallyOften) {
  constexpr int kEpochs = 6000;
  const auto order = NewShuffledOrder({0, 1, 2, 3, 4, 5}, 9);
  std::vector<double> first(6);
  for (int epoch = 0; epoch < kEpochs; ++epoch) ++first[order->Epoch(epoch)[0]];
  double chi_square = 0;
  for (const double count : first) {
    chi_square += (count - kEpochs / 6) * (count - kEpochs / 6) / (kEpochs / 6);
  }
  EXPECT_LT(chi_square, 20.5);  // 5 degrees of freedom, p = 0.001.
}

TEST(ShuffledOrderTest, OfOneAndOfNone) {
  EXPECT_EQ(NewShuffledOrder({7}, 1)->Epoch(0), (Nodes{7}));
  EXPECT_TRUE(NewShuffledOrder({}, 1)->Epoch(0).empty());
}

// Node n belongs to part n % 10; odd parts have no seeds.
struct PartedNodes {
  PartedNodes() {
    for (store::NodeId node = 0; node < 1000; ++node) {
      if (node % 2 == 1) continue;
      nodes.push_back(999 - node - 1);
      parts.push_back(static_cast<uint16_t>(nodes.back() % 10));
    }
  }

  std::unique_ptr<SeedOrder> Order(int parts_per_macro_batch,
                                   uint64_t data_seed = 1) const {
    return NewPartitionOrder(nodes,
                             {.parts = parts,
                              .parts_per_macro_batch = parts_per_macro_batch,
                              .partition = "halves",
                              .data_seed = data_seed});
  }

  Nodes nodes;
  std::vector<uint16_t> parts;
};

TEST(PartitionOrderTest, MacroBatchesTileTheEpochByWholeParts) {
  const PartedNodes parted;
  const auto order = parted.Order(2);
  const Nodes epoch = order->Epoch(3);
  const std::vector<MacroBatch> macro_batches = order->MacroBatches(3);
  ASSERT_EQ(macro_batches.size(), 3u) << "five parts have seeds";
  std::set<uint16_t> seen;
  auto seed = epoch.begin();
  for (const MacroBatch& macro_batch : macro_batches) {
    std::set<uint16_t> parts;
    for (int64_t i = 0; i < macro_batch.num_seeds; ++i) {
      parts.insert(static_cast<uint16_t>(*seed++ % 10));
    }
    EXPECT_EQ(parts, std::set<uint16_t>(macro_batch.parts.begin(),
                                        macro_batch.parts.end()));
    seen.merge(parts);
  }
  EXPECT_EQ(seed, epoch.end());
  EXPECT_EQ(seen, (std::set<uint16_t>{0, 2, 4, 6, 8}));
  EXPECT_EQ(macro_batches.back().parts.size(), 1u);
  Nodes sorted = epoch;
  std::sort(sorted.begin(), sorted.end());
  Nodes all = parted.nodes;
  std::sort(all.begin(), all.end());
  EXPECT_EQ(sorted, all);
  EXPECT_EQ(order->size(), std::ssize(all));
}

TEST(PartitionOrderTest, IsAFunctionOfSeedAndEpochKey) {
  const PartedNodes parted;
  const auto order = parted.Order(2);
  EXPECT_EQ(order->Epoch(1), parted.Order(2)->Epoch(1));
  EXPECT_NE(order->Epoch(0), order->Epoch(1));
  EXPECT_NE(order->Epoch(0), parted.Order(3)->Epoch(0));
  EXPECT_NE(order->Epoch(0), parted.Order(2, 2)->Epoch(0));
  EXPECT_NE(order->MacroBatches(0), order->MacroBatches(1));
  EXPECT_EQ(order->identity(), "halves 2");
}

TEST(PartitionOrderTest, OfOnePartIsTheShuffledOrder) {
  const Nodes nodes = PartedNodes().nodes;
  const std::vector<uint16_t> parts(nodes.size(), 0);
  const auto order = NewPartitionOrder(
      nodes, {.parts = parts, .partition = "whole", .data_seed = 5});
  const auto shuffled = NewShuffledOrder(nodes, 5);
  for (const uint64_t epoch_key : {0, 1, 7}) {
    EXPECT_EQ(order->Epoch(epoch_key), shuffled->Epoch(epoch_key));
  }
  EXPECT_TRUE(shuffled->MacroBatches(0).empty());
}

// Digests of jobs depend on this order.
TEST(PartitionOrderTest, NeverChanges) {
  const Nodes nodes = Ascending(8);
  const std::vector<uint16_t> parts = {0, 0, 1, 1, 2, 2, 3, 3};
  const auto order = NewPartitionOrder(nodes, {.parts = parts,
                                               .parts_per_macro_batch = 2,
                                               .partition = "pairs",
                                               .data_seed = 42});
  EXPECT_EQ(order->Epoch(0), (Nodes{106, 100, 107, 101, 105, 103, 102, 104}));
  EXPECT_EQ(order->Epoch(3), (Nodes{102, 103, 107, 106, 101, 104, 100, 105}));
}

TEST(PartitionOrderTest, OfNone) {
  const auto order = NewPartitionOrder({}, {.partition = "none"});
  EXPECT_TRUE(order->Epoch(0).empty());
  EXPECT_TRUE(order->MacroBatches(0).empty());
}

TEST(SequentialOrderTest, KeepsTheOrderInEveryEpoch) {
  const Nodes nodes = {5, 3, 9};
  const auto order = NewSequentialOrder(nodes);
  EXPECT_EQ(order->Epoch(0), nodes);
  EXPECT_EQ(order->Epoch(7), nodes);
}

TEST(SeedOrderTest, PlacesAreThoseOfTheSeeds) {
  const PartedNodes parted;
  const Nodes& nodes = parted.nodes;
  std::vector<std::unique_ptr<SeedOrder>> orders;
  orders.push_back(NewShuffledOrder(nodes, 5));
  orders.push_back(parted.Order(2));
  orders.push_back(NewSequentialOrder(nodes));
  orders.push_back(NewNamedOrder(parted.Order(3), "mine"));
  for (const auto& order : orders) {
    for (const uint64_t epoch_key : {0, 4}) {
      const std::vector<int64_t> places = order->Places(epoch_key);
      Nodes found;
      for (const int64_t place : places) found.push_back(nodes.at(place));
      EXPECT_EQ(found, order->Epoch(epoch_key));
    }
  }
}

TEST(SeedOrderTest, ANameIsAPartOfTheIdentityAlone) {
  const PartedNodes parted;
  const auto named = NewNamedOrder(parted.Order(2), "mine");
  EXPECT_EQ(named->identity(), "halves 2;mine");
  EXPECT_EQ(named->size(), parted.Order(2)->size());
  EXPECT_EQ(named->MacroBatches(3), parted.Order(2)->MacroBatches(3));
  EXPECT_NE(NewNamedOrder(NewShuffledOrder({1}, 1), "a")->identity(),
            NewNamedOrder(NewShuffledOrder({1}, 1), "b")->identity());
}

}  // namespace
}  // namespace hearth::sample
