#include "client/cli/views/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

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

// Compared epochs, without a history, come before the job's own epochs.
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

using ::testing::HasSubstr;
using ::testing::Not;

v1::JobEvent State(v1::JobState state) {
  v1::JobEvent event;
  event.mutable_state()->set_state(state);
  return event;
}

v1::JobEvent Batches(uint64_t done, int64_t second) {
  v1::JobEvent event;
  event.mutable_time()->set_seconds(second);
  v1::Progress* progress = event.mutable_progress();
  progress->set_phase("training");
  progress->set_epoch(1);
  progress->set_epochs(2);
  progress->set_done(done);
  progress->set_total(100);
  progress->set_loss(1.5);
  return event;
}

v1::JobEvent Epoch() {
  v1::JobEvent event;
  event.mutable_epoch()->set_epoch(1);
  event.mutable_epoch()->set_loss(1.25);
  event.mutable_epoch()->set_metric("accuracy");
  event.mutable_epoch()->set_valid_metric(0.5);
  event.mutable_epoch()->set_seconds(4.2);
  return event;
}

v1::JobEvent Log(v1::LogLine::Severity severity) {
  v1::JobEvent event;
  event.mutable_log()->set_severity(severity);
  event.mutable_log()->set_text("low \x1bon memory");
  return event;
}

// The terminal's current line after `text`.
std::string LastLine(const std::string& text) {
  const size_t start = text.rfind("\r\x1b[K");
  return start == std::string::npos ? text : text.substr(start + 4);
}

std::string LiveLine(int columns) {
  std::ostringstream out;
  const auto display =
      NewLiveProgress(out, ProgressUnit::kBatches, [=] { return columns; });
  display->Show(Batches(0, 100));
  display->Show(Batches(50, 110));
  return LastLine(out.str());
}

TEST(LiveProgress, ShowsOneLine) {
  EXPECT_EQ(LiveLine(200),
            "training  epoch 1/2  [===============>              ]   50%"
            "  5.0 batches/s  loss 1.5000  ETA 0:30");
}

TEST(LiveProgress, FitsTheTerminal) {
  for (int columns = 20; columns < 120; ++columns) {
    EXPECT_LT(LiveLine(columns).size(), columns);
  }
  EXPECT_THAT(LiveLine(60), Not(HasSubstr("[")));
  EXPECT_THAT(LiveLine(90), HasSubstr("ETA 0:30"));
}

TEST(LiveProgress, EpochsStayAboveTheLine) {
  std::ostringstream out;
  const auto display =
      NewLiveProgress(out, ProgressUnit::kBatches, [] { return 80; });
  display->Show(Batches(10, 1));
  display->Show(Epoch());
  EXPECT_THAT(out.str(),
              HasSubstr("\r\x1b[Kepoch 1: loss 1.2500, valid accuracy 0.500, "
                        "4.2 s\n"));
  EXPECT_THAT(LastLine(out.str()), HasSubstr("training"));
}

TEST(LiveProgress, LeavesACleanLineAtTheEnd) {
  std::ostringstream out;
  const auto display =
      NewLiveProgress(out, ProgressUnit::kBatches, [] { return 80; });
  display->Show(State(v1::RUNNING));
  EXPECT_EQ(LastLine(out.str()), "running");
  display->Show(State(v1::SUCCEEDED));
  EXPECT_EQ(LastLine(out.str()), "");
}

TEST(LiveProgress, CountsBytesOfImports) {
  std::ostringstream out;
  const auto display =
      NewLiveProgress(out, ProgressUnit::kBytes, [] { return 80; });
  v1::JobEvent event;
  event.mutable_progress()->set_phase("features");
  event.mutable_progress()->set_total(4 << 20);
  display->Show(event);
  event.mutable_time()->set_seconds(1);
  event.mutable_progress()->set_done(2 << 20);
  display->Show(event);
  EXPECT_THAT(LastLine(out.str()), HasSubstr("2.0 MiB/s  ETA 0:01"));
}

TEST(PlainProgress, WritesALineNowAndThen) {
  std::ostringstream out;
  const auto display = NewPlainProgress(out);
  for (const v1::JobEvent& event :
       {State(v1::RUNNING), Batches(1, 1), Batches(2, 2), Epoch(),
        Log(v1::LogLine::INFO), Log(v1::LogLine::WARNING),
        State(v1::SUCCEEDED)}) {
    display->Show(event);
  }
  EXPECT_EQ(out.str(),
            "running\n"
            "epoch 1: loss 1.2500, valid accuracy 0.500, 4.2 s\n"
            "warning: low \\x1bon memory\n"
            "succeeded\n");
}

TEST(PlainProgress, NamesEachPhaseOfAnImportOnce) {
  std::ostringstream out;
  const auto display = NewPlainProgress(out);
  for (const char* phase : {"features", "features", "edges"}) {
    v1::JobEvent event;
    event.mutable_progress()->set_phase(phase);
    display->Show(event);
  }
  EXPECT_EQ(out.str(), "features\nedges\n");
}

TEST(Progress, SaysWhatAJobWaitsFor) {
  v1::JobEvent waiting = State(v1::WAITING);
  waiting.mutable_state()->set_waiting_reason("disk: /d/f: \x1b[EIO");
  std::ostringstream plain;
  NewPlainProgress(plain)->Show(waiting);
  EXPECT_EQ(plain.str(), "waiting: disk: /d/f: \\x1b[EIO\n");
  std::ostringstream out;
  const auto live =
      NewLiveProgress(out, ProgressUnit::kBatches, [] { return 80; });
  live->Show(waiting);
  EXPECT_THAT(out.str(), HasSubstr(plain.str()));
  EXPECT_EQ(LastLine(out.str()), "waiting") << "the job has not ended";
}

}  // namespace

}  // namespace hearth::cli
