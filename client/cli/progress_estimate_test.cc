#include "client/cli/progress_estimate.h"

#include <gtest/gtest.h>

namespace hearth::cli {
namespace {

v1::Progress Training(uint32_t epoch, uint64_t done) {
  v1::Progress progress;
  progress.set_phase("training");
  progress.set_epoch(epoch);
  progress.set_epochs(2);
  progress.set_done(done);
  progress.set_total(10);
  return progress;
}

v1::Progress Phase(const char* phase, uint64_t done, uint64_t total) {
  v1::Progress progress;
  progress.set_phase(phase);
  progress.set_done(done);
  progress.set_total(total);
  return progress;
}

TEST(ProgressEstimate, KnowsNothingBeforeTheSecondEvent) {
  ProgressEstimate estimate;
  estimate.Add(Training(1, 0), 100);
  EXPECT_EQ(estimate.fraction(), 0);
  EXPECT_FALSE(estimate.rate());
  EXPECT_FALSE(estimate.remaining_seconds());
}

TEST(ProgressEstimate, CountsAllEpochs) {
  ProgressEstimate estimate;
  estimate.Add(Training(1, 0), 100);
  estimate.Add(Training(1, 5), 110);
  EXPECT_EQ(estimate.fraction(), 0.5);
  EXPECT_DOUBLE_EQ(*estimate.rate(), 0.5);
  EXPECT_DOUBLE_EQ(*estimate.remaining_seconds(), 30);
}

TEST(ProgressEstimate, TimeOfValidationCounts) {
  ProgressEstimate estimate;
  estimate.Add(Training(1, 0), 0);
  v1::Progress validating = Phase("validating", 1, 2);
  validating.set_epoch(1);
  validating.set_epochs(2);
  estimate.Add(validating, 15);
  EXPECT_DOUBLE_EQ(*estimate.remaining_seconds(), 15);
  estimate.Add(Training(2, 0), 20);
  EXPECT_DOUBLE_EQ(*estimate.remaining_seconds(), 20);
  EXPECT_FALSE(estimate.rate());
}

// Epochs without a history, to compare, come before those of the job.
TEST(ProgressEstimate, TheComparedEpochsStandAlone) {
  ProgressEstimate estimate;
  v1::Progress comparing = Training(1, 0);
  comparing.set_phase("comparing");
  estimate.Add(comparing, 0);
  comparing.set_done(5);
  estimate.Add(comparing, 10);
  EXPECT_DOUBLE_EQ(*estimate.remaining_seconds(), 30);
  estimate.Add(Training(1, 0), 40);
  EXPECT_FALSE(estimate.remaining_seconds());
  estimate.Add(Training(1, 5), 45);
  EXPECT_DOUBLE_EQ(*estimate.remaining_seconds(), 15);
}

TEST(ProgressEstimate, AWatchThatStartsLateIsRight) {
  ProgressEstimate estimate;
  estimate.Add(Training(2, 0), 50);
  estimate.Add(Training(2, 5), 60);
  EXPECT_DOUBLE_EQ(*estimate.remaining_seconds(), 10);
}

TEST(ProgressEstimate, StartsOverAfterAResume) {
  ProgressEstimate estimate;
  estimate.Add(Training(1, 8), 0);
  estimate.Add(Training(1, 4), 100);
  EXPECT_FALSE(estimate.rate());
  EXPECT_FALSE(estimate.remaining_seconds());
  estimate.Add(Training(1, 8), 101);
  EXPECT_DOUBLE_EQ(*estimate.rate(), 4);
  EXPECT_NEAR(*estimate.remaining_seconds(), 3, 1e-9);
}

TEST(ProgressEstimate, EachPhaseOfAnImportStandsAlone) {
  ProgressEstimate estimate;
  estimate.Add(Phase("features", 0, 100), 0);
  estimate.Add(Phase("features", 100, 100), 50);
  estimate.Add(Phase("edges", 0, 10), 60);
  EXPECT_FALSE(estimate.remaining_seconds());
  estimate.Add(Phase("edges", 5, 10), 61);
  EXPECT_DOUBLE_EQ(*estimate.remaining_seconds(), 1);
}

TEST(ProgressEstimate, UnknownTotals) {
  ProgressEstimate estimate;
  estimate.Add(Phase("checking", 5, 0), 0);
  estimate.Add(Phase("checking", 9, 0), 1);
  EXPECT_FALSE(estimate.fraction());
  EXPECT_FALSE(estimate.remaining_seconds());
  EXPECT_DOUBLE_EQ(*estimate.rate(), 4);
}

}  // namespace
}  // namespace hearth::cli
