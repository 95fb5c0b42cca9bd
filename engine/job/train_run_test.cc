#include "engine/job/train_run.h"

#include "gtest/gtest.h"

namespace hearth::job {
namespace {

TEST(FirstAfterLongestGapTest, GoesOnWhereThoseBehindMeetTheOthersSoonest) {
  EXPECT_EQ(FirstAfterLongestGap({0}, 1), 0);
  EXPECT_EQ(FirstAfterLongestGap({3}, 5), 3);
  // From 1 on: 2, 3 and 4 meet before all go on to 7.
  EXPECT_EQ(FirstAfterLongestGap({1, 4, 7}, 20), 1);
  // A newcomer at 0 of 5 waits for those at 3, who come round to it.
  EXPECT_EQ(FirstAfterLongestGap({0, 3}, 5), 3);
  EXPECT_EQ(FirstAfterLongestGap({0, 3}, 100), 0);
  EXPECT_EQ(FirstAfterLongestGap({0, 1}, 9), 0);
  EXPECT_EQ(FirstAfterLongestGap({0, 8}, 9), 8);
  // The one that ends first wins among equal gaps.
  EXPECT_EQ(FirstAfterLongestGap({0, 5}, 10), 0);
}

}  // namespace
}  // namespace hearth::job
