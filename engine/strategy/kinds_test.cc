#include "engine/strategy/kinds.h"

#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

TEST(StrategyTest, OnlyReorderingChangesTheOrder) {
  EXPECT_TRUE(DeliversInOrder(MemoryOptions{}));
  EXPECT_TRUE(DeliversInOrder(GinexOptions{}));
  EXPECT_TRUE(DeliversInOrder(DiskgnnOptions{}));
  EXPECT_TRUE(DeliversInOrder(OutreOptions{}));
  EXPECT_TRUE(DeliversInOrder(GnndriveOptions{}));
  EXPECT_FALSE(DeliversInOrder(GnndriveOptions{.reorder = true}));
}

TEST(NameTest, IsTheContracts) {
  EXPECT_EQ(Name(MemoryOptions{}), "memory");
  EXPECT_EQ(Name(MmapOptions{}), "mmap");
  EXPECT_EQ(Name(GnndriveOptions{}), "gnndrive");
  EXPECT_EQ(Name(GinexOptions{}), "ginex");
  EXPECT_EQ(Name(DiskgnnOptions{}), "diskgnn");
  EXPECT_EQ(Name(OutreOptions{}), "outre");
}

}  // namespace
}  // namespace hearth::strategy
