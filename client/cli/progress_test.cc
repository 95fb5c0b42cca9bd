#include "client/cli/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace hearth::cli {
namespace {

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

// The screen's current line after `text`.
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
