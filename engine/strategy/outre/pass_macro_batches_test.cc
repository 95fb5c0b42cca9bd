#include "engine/strategy/outre/pass_macro_batches.h"

#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "engine/sample/seed_order.h"
#include "engine/store/topology.h"
#include "engine/strategy/pass.h"
#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

// Macro batches of 3, 1, 4 and 2 seeds, whatever the key.
class FixedOrder final : public sample::SeedOrder {
 public:
  int64_t size() const override { return 10; }
  std::vector<store::NodeId> Epoch(uint64_t /*epoch_key*/) const override {
    std::vector<store::NodeId> nodes(10);
    std::iota(nodes.begin(), nodes.end(), 0);
    return nodes;
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

}  // namespace
}  // namespace hearth::strategy
