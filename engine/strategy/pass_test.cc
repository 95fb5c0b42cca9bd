#include "engine/strategy/pass.h"

#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

TEST(NumBatchesTest, TheLastOneMayBeShort) {
  EXPECT_EQ(NumBatches(0, 10), 0);
  EXPECT_EQ(NumBatches(10, 10), 1);
  EXPECT_EQ(NumBatches(11, 10), 2);
}

}  // namespace
}  // namespace hearth::strategy
