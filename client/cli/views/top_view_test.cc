#include "client/cli/views/top_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace hearth::cli {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

v1::Status StatusOf(int64_t pid, uint64_t reads) {
  v1::Status status;
  status.set_version("0.1.0");
  status.set_pid(pid);
  status.set_jobs_running(1);
  status.set_reads(reads);
  status.set_bytes_read(reads * 4096);
  status.set_read_queues("io_uring");
  v1::MemoryShare& share = *status.add_memory_shares();
  share.set_owner("cache");
  share.set_bytes(3 << 20);
  return status;
}

v1::Job JobOf(const std::string& id, v1::JobState state) {
  v1::Job job;
  job.set_id(id);
  job.set_state(state);
  job.mutable_spec()->mutable_train()->mutable_data()->set_dataset("papers");
  return job;
}

void AddStage(const std::string& name, double busy, double starved,
              v1::EpochReport* epoch) {
  v1::StageReport& stage = *epoch->add_stages();
  stage.set_name(name);
  stage.set_busy_seconds(busy);
  stage.set_starved_seconds(starved);
}

v1::Job Trained() {
  v1::Job job = JobOf("train-1", v1::RUNNING);
  v1::EpochReport& epoch = *job.mutable_report()->mutable_train()->add_epochs();
  epoch.set_seconds(2);
  epoch.set_rows_needed(24000);
  v1::LevelHits& hits = *epoch.add_hits();
  hits.set_level("cpu_cache");
  hits.set_rows(6000);
  AddStage("sample", 1, 3, &epoch);
  AddStage("extract", 3.6, 0.4, &epoch);
  AddStage("train", 2, 2, &epoch);
  return job;
}

v1::JobEvent ProgressAt(int64_t seconds, uint64_t done) {
  v1::JobEvent event;
  event.mutable_time()->set_seconds(seconds);
  v1::Progress& progress = *event.mutable_progress();
  progress.set_phase("training");
  progress.set_done(done);
  progress.set_total(100);
  progress.set_epoch(2);
  progress.set_epochs(5);
  progress.set_loss(1.25);
  return event;
}

// The line of the picture that begins with `id`.
std::string LineOf(const TopView& view, const std::string& id) {
  const std::string text = view.Text(0, 0);
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::StrContains(line, id)) return std::string(line);
  }
  return "";
}

TEST(TopViewTest, AJobTellsWhatItDoesAndWhatBindsIt) {
  TopView view;
  view.Add(StatusOf(7, 0), {Trained()}, 10);
  view.Add("train-1", ProgressAt(0, 20));
  view.Add("train-1", ProgressAt(4, 40));
  EXPECT_THAT(
      LineOf(view, "train-1"),
      AllOf(HasSubstr("papers"), HasSubstr("running"), HasSubstr("training"),
            HasSubstr("2 of 5"), HasSubstr("40 of 100"), HasSubstr("5.0"),
            HasSubstr("1.2500"), HasSubstr("12,000"),
            HasSubstr("cpu_cache 25.0%"),
            HasSubstr("extract   sample 25% extract 90% train 50%")));
  const auto job = view.Json()["jobs"][0];
  EXPECT_EQ(job["bound_by"], "extract");
  EXPECT_EQ(job["stages"]["sample"], 0.25);
  EXPECT_EQ(job["hits"]["cpu_cache"], 0.25);
  EXPECT_EQ(job["rows_per_second"], 12000);
  EXPECT_EQ(job["units_per_second"], 5);
  EXPECT_EQ(job["done"], 40);
}

TEST(TopViewTest, MachinesOfAJobTellWhoWaits) {
  v1::Job job = Trained();
  v1::MachineState& machine = *job.add_machines();
  machine.set_member("host-b");
  machine.set_phase("training");
  machine.set_done(7);
  machine.set_total(18);
  machine.set_bytes_sent(3 << 20);
  machine.set_wait_seconds(1.5);
  TopView view;
  view.Add(StatusOf(1, 0), {job, JobOf("train-2", v1::QUEUED)}, 0);
  EXPECT_THAT(view.Text(0, 0),
              ContainsRegex("machines of train-1:\n.*\n.*host-b +training +- "
                            "+7/18 +3.0 MiB +0 B +1.5 s"));
  EXPECT_THAT(view.Text(0, 0), Not(HasSubstr("machines of train-2")));
}

TEST(TopViewTest, AFeedTellsWhatBindsItsTrainingPasses) {
  v1::Job job;
  job.set_id("feed-1");
  job.set_state(v1::RUNNING);
  job.mutable_spec()->mutable_feed()->mutable_data()->set_dataset("papers");
  TopView view;
  view.Add(StatusOf(7, 0), {job}, 10);
  EXPECT_TRUE(view.Json()["jobs"][0]["bound_by"].is_null());
  v1::PassReport& passes =
      *job.mutable_report()->mutable_feed()->mutable_train()->mutable_sum();
  passes.set_seconds(4);
  passes.set_batches(6);
  passes.set_rows_needed(2000);
  for (const std::string name : {"sample", "client"}) {
    v1::StageReport& stage = *passes.add_stages();
    stage.set_name(name);
    stage.set_busy_seconds(name == "client" ? 3 : 1);
    stage.set_starved_seconds(1);
  }
  view.Add(StatusOf(7, 0), {job}, 11);
  EXPECT_THAT(
      LineOf(view, "feed-1"),
      AllOf(HasSubstr("500"), HasSubstr("client    sample 50% client 75%")));
  EXPECT_EQ(view.Json()["jobs"][0]["bound_by"], "client");
}

TEST(TopViewTest, WhatIsNotKnownIsNotMadeUp) {
  TopView view;
  view.Add(StatusOf(7, 0), {JobOf("train-1", v1::PREPARING)}, 10);
  EXPECT_THAT(LineOf(view, "train-1"), Not(ContainsRegex("[0-9]%")));
  const auto json = view.Json();
  EXPECT_TRUE(json["jobs"][0]["bound_by"].is_null());
  EXPECT_TRUE(json["disk"]["reads_per_second"].is_null());
}

TEST(TopViewTest, ReadsAreThoseBetweenTwoAnswers) {
  TopView view;
  view.Add(StatusOf(7, 1000), {}, 10);
  view.Add(StatusOf(7, 4000), {}, 12);
  EXPECT_THAT(
      view.Text(0, 0),
      AllOf(HasSubstr("1,500 reads/s, 5.9 MiB/s by io_uring"),
            HasSubstr("cache 3.0 MiB"), HasSubstr("no job runs or waits")));
  EXPECT_EQ(view.Json()["disk"]["reads_per_second"], 1500);
}

TEST(TopViewTest, ARestartIsSaid) {
  TopView view;
  view.Add(StatusOf(7, 1000), {Trained()}, 10);
  view.Lose(absl::UnavailableError("connection\nrefused"), 25);
  EXPECT_THAT(view.Text(0, 0),
              AllOf(HasSubstr("DOES NOT ANSWER, for 0:15"),
                    HasSubstr("connection\\nrefused"), HasSubstr("train-1")));
  view.Add(StatusOf(8, 10), {Trained()}, 30);
  EXPECT_THAT(view.Text(0, 0), AllOf(HasSubstr("started again 1 time\n"),
                                     Not(HasSubstr("reads/s"))));
}

TEST(TopViewTest, ThoseThatRunComeFirstAndTheOthersSayWhy) {
  v1::Job waiting = JobOf("train-2", v1::WAITING);
  waiting.set_waiting_reason("memory: 3 GiB");
  v1::Job held = JobOf("train-3", v1::QUEUED);
  held.set_held(true);
  TopView view;
  view.Add(StatusOf(7, 0), {held, waiting, Trained()}, 10);
  const std::string text = view.Text(0, 0);
  EXPECT_LT(text.find("train-1"), text.find("train-2"));
  EXPECT_LT(text.find("train-2"), text.find("train-3"));
  EXPECT_THAT(LineOf(view, "train-2"), HasSubstr("memory: 3 GiB"));
  EXPECT_THAT(LineOf(view, "train-3"), HasSubstr("held"));
  EXPECT_EQ(view.Json()["jobs"][1]["waits_for"], "memory: 3 GiB");
}

TEST(TopViewTest, ItFitsItsScreen) {
  std::vector<v1::Job> jobs;
  for (int i = 0; i < 50; ++i) {
    jobs.push_back(JobOf(absl::StrCat("train-", i), v1::QUEUED));
    jobs.back().mutable_spec()->mutable_train()->mutable_data()->set_dataset(
        "größe");
  }
  TopView view;
  view.Add(StatusOf(7, 0), jobs, 10);
  const std::string text = view.Text(13, 12);
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  ASSERT_EQ(lines.size(), 12u);
  EXPECT_EQ(lines.back(), "... 45 more");
  EXPECT_EQ(lines[6], "train-0   grö");
}

}  // namespace
}  // namespace hearth::cli
