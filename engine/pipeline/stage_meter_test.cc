#include "engine/pipeline/stage_meter.h"

#include "engine/pipeline/observed_clock.h"
#include "gtest/gtest.h"

namespace hearth::pipeline {
namespace {

TEST(StageMeterTest, StartsAtZero) {
  ObservedClock clock;
  const StageMeter meter(2, clock);
  clock.Advance(5);
  const StageMeter::Totals totals = meter.Read();
  EXPECT_EQ(totals.starved_seconds, 0);
  EXPECT_EQ(totals.busy_seconds, 0);
  EXPECT_EQ(totals.blocked_seconds, 0);
  EXPECT_EQ(totals.items, 0);
}

TEST(StageMeterTest, EveryMomentCountsForOneActivity) {
  ObservedClock clock;
  StageMeter meter(1, clock);
  meter.Switch(0, Activity::kStarved);
  clock.Advance(1);
  meter.Switch(0, Activity::kBusy);
  clock.Advance(2);
  meter.CountItem();
  meter.Switch(0, Activity::kBlocked);
  clock.Advance(4);
  meter.Switch(0, Activity::kAbsent);
  clock.Advance(8);
  const StageMeter::Totals totals = meter.Read();
  EXPECT_EQ(totals.starved_seconds, 1);
  EXPECT_EQ(totals.busy_seconds, 2);
  EXPECT_EQ(totals.blocked_seconds, 4);
  EXPECT_EQ(totals.items, 1);
}

TEST(StageMeterTest, TheCurrentActivityIsIncludedOnceInEachReading) {
  ObservedClock clock;
  StageMeter meter(1, clock);
  meter.Switch(0, Activity::kBusy);
  clock.Advance(3);
  EXPECT_EQ(meter.Read().busy_seconds, 3);
  clock.Advance(1);
  EXPECT_EQ(meter.Read().busy_seconds, 4);
  meter.Switch(0, Activity::kBusy);
  EXPECT_EQ(meter.Read().busy_seconds, 4);
}

TEST(StageMeterTest, ThreadsAreSummed) {
  ObservedClock clock;
  StageMeter meter(3, clock);
  meter.Switch(0, Activity::kBusy);
  meter.Switch(1, Activity::kBusy);
  clock.Advance(2);
  meter.Switch(1, Activity::kBlocked);
  meter.Switch(2, Activity::kStarved);
  clock.Advance(1);
  const StageMeter::Totals totals = meter.Read();
  EXPECT_EQ(totals.busy_seconds, 5);
  EXPECT_EQ(totals.blocked_seconds, 1);
  EXPECT_EQ(totals.starved_seconds, 1);
}

}  // namespace
}  // namespace hearth::pipeline
