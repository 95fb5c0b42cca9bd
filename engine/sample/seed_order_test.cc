#include "engine/sample/seed_order.h"

#include <algorithm>
#include <memory>
#include <numeric>
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

// Digests of jobs depend on it.
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

TEST(SequentialOrderTest, KeepsTheOrderInEveryEpoch) {
  const Nodes nodes = {5, 3, 9};
  const auto order = NewSequentialOrder(nodes);
  EXPECT_EQ(order->Epoch(0), nodes);
  EXPECT_EQ(order->Epoch(7), nodes);
}

}  // namespace
}  // namespace hearth::sample
