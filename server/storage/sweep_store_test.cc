#include "server/storage/sweep_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "server/storage/job_store.h"

namespace hearth::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

v1::JobSpec TrainSpec() {
  v1::JobSpec spec;
  spec.mutable_train()->mutable_data()->set_dataset("cora");
  return spec;
}

v1::SweepEvent StateEvent(v1::SweepState state) {
  v1::SweepEvent event;
  event.mutable_state()->set_state(state);
  return event;
}

class SweepStoreTest : public ::testing::Test {
 protected:
  SweepStoreTest() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    Open();
  }

  void Open() {
    sweeps_.reset();
    jobs_.reset();
    auto jobs = JobStore::Open(
        io::FileSystem::Posix(), folder_ + "/hearth.db", Clock::Real(),
        [this](const std::string& id) { heard_.push_back(id); });
    ASSERT_TRUE(jobs.ok()) << jobs.status();
    jobs_ = *std::move(jobs);
    sweeps_ = std::make_unique<SweepStore>(
        *jobs_, Clock::Real(),
        [this](const std::string& id) { heard_.push_back(id); });
  }

  // Adds a sweep with the jobs of two trials.
  SweepStep Add(const std::string& request_id = "") {
    SweepStep step;
    step.sweep.set_state(v1::SWEEP_RUNNING);
    step.sweep.mutable_spec()->set_trials(2);
    step.sweep.set_priority(7);
    step.events = {StateEvent(v1::SWEEP_RUNNING)};
    for (uint32_t trial = 1; trial <= 2; ++trial) {
      step.new_jobs.push_back({.spec = TrainSpec(), .trial = trial});
    }
    const auto ids = sweeps_->Add(request_id, step);
    EXPECT_TRUE(ids.ok()) << ids.status();
    EXPECT_THAT(*ids, ElementsAre("train-1", "train-2"));
    return step;
  }

  // Next step of a sweep.
  static SweepStep Next(const SweepStep& before) {
    SweepStep step;
    step.sweep = before.sweep;
    return step;
  }

  const std::string folder_ = testing::TempDir() + "/sweep_store_test";
  std::vector<std::string> heard_;
  std::unique_ptr<JobStore> jobs_;
  std::unique_ptr<SweepStore> sweeps_;
};

TEST_F(SweepStoreTest, ASweepAndItsJobsAreThereAfterARestart) {
  EXPECT_EQ(Add().sweep.id(), "sweep-1");
  EXPECT_THAT(heard_, ElementsAre("train-1", "train-2", "sweep-1"));
  Open();
  const auto sweep = sweeps_->Get("sweep-1");
  ASSERT_TRUE(sweep.ok()) << sweep.status();
  EXPECT_EQ(sweep->state(), v1::SWEEP_RUNNING);
  EXPECT_EQ(sweep->last_sequence(), 1u);
  EXPECT_TRUE(sweep->has_create_time());
  const auto jobs = sweeps_->ReadJobs("sweep-1");
  ASSERT_TRUE(jobs.ok()) << jobs.status();
  ASSERT_EQ(jobs->size(), 2u);
  EXPECT_EQ(jobs->back().sweep(), "sweep-1");
  EXPECT_EQ(jobs->back().trial(), 2u);
  EXPECT_EQ(jobs->back().priority(), 7);
  EXPECT_EQ(jobs->back().state(), v1::QUEUED);
  EXPECT_EQ(jobs_->Get("train-1")->sweep(), "sweep-1");
  EXPECT_EQ(jobs_->Unended()->size(), 2u);
  EXPECT_TRUE(absl::IsNotFound(sweeps_->Get("sweep-2").status()));
  EXPECT_TRUE(absl::IsNotFound(sweeps_->Get("train-1").status()));
}

TEST_F(SweepStoreTest, AStepIsStoredWithItsEffects) {
  const SweepStep first = Add();
  SweepStep step = Next(first);
  step.events = {StateEvent(v1::SWEEP_PAUSED), StateEvent(v1::SWEEP_RUNNING)};
  step.held = {"train-1"};
  step.cancelled = {"train-2"};
  step.epochs.emplace_back().job = "train-1";
  step.epochs.back().report.set_epoch(1);
  ASSERT_TRUE(sweeps_->Commit(step).ok());
  EXPECT_EQ(step.sweep.last_sequence(), 3u);
  EXPECT_TRUE(jobs_->Get("train-1")->held());
  const auto events = jobs_->ReadEvents("train-1", 1, 10);
  EXPECT_EQ(events->events.back().epoch().epoch(), 1u);
  // A queued job that is to be cancelled is not run after a restart.
  ASSERT_TRUE(jobs_->RecoverInterrupted(3).ok());
  EXPECT_EQ(jobs_->Get("train-2")->state(), v1::CANCELLED);
  EXPECT_EQ(jobs_->Get("train-1")->state(), v1::QUEUED);
  SweepStep last = Next(step);
  last.released = {"train-1"};
  last.sweep.set_state(v1::SWEEP_DONE);
  last.events = {StateEvent(v1::SWEEP_DONE)};
  ASSERT_TRUE(sweeps_->Commit(last).ok());
  EXPECT_FALSE(jobs_->Get("train-1")->held());
  EXPECT_TRUE(sweeps_->Get("sweep-1")->has_end_time());
}

TEST_F(SweepStoreTest, AStepThatFailsLeavesNothing) {
  SweepStep step = Next(Add());
  step.events = {StateEvent(v1::SWEEP_PAUSED)};
  step.new_jobs.push_back({.spec = TrainSpec(), .trial = 3});
  // An epoch of a job that does not exist breaks the events' foreign key.
  step.epochs.emplace_back().job = "train-99";
  step.epochs.back().report.set_epoch(1);
  EXPECT_FALSE(sweeps_->Commit(step).ok());
  EXPECT_EQ(sweeps_->Get("sweep-1")->last_sequence(), 1u);
  EXPECT_EQ(sweeps_->ReadJobs("sweep-1")->size(), 2u);
}

TEST_F(SweepStoreTest, EventsAreReadInOrderToTheEnd) {
  SweepStep step = Next(Add());
  EXPECT_FALSE(sweeps_->ReadEvents("sweep-1", 2, 10)->is_last);
  step.events = {StateEvent(v1::SWEEP_PAUSED), StateEvent(v1::SWEEP_STOPPED)};
  step.sweep.set_state(v1::SWEEP_STOPPED);
  ASSERT_TRUE(sweeps_->Commit(step).ok());
  const auto two = sweeps_->ReadEvents("sweep-1", 1, 2);
  ASSERT_EQ(two->events.size(), 2u);
  EXPECT_EQ(two->events[1].sequence(), 2u);
  EXPECT_FALSE(two->is_last);
  const auto rest = sweeps_->ReadEvents("sweep-1", 3, 2);
  ASSERT_EQ(rest->events.size(), 1u);
  EXPECT_EQ(rest->events[0].state().state(), v1::SWEEP_STOPPED);
  EXPECT_TRUE(rest->is_last);
  EXPECT_TRUE(sweeps_->ReadEvents("sweep-1", 4, 2)->is_last);
  EXPECT_TRUE(absl::IsNotFound(sweeps_->ReadEvents("sweep-9", 1, 1).status()));
}

TEST_F(SweepStoreTest, TheNewestSweepsAreListedAlone) {
  Add();
  for (int i = 0; i < 2; ++i) {
    SweepStep step;
    ASSERT_TRUE(sweeps_->Add("", step).ok());
  }
  EXPECT_EQ(sweeps_->List()->size(), 3u);
  const auto newest = sweeps_->List(2);
  ASSERT_TRUE(newest.ok()) << newest.status();
  ASSERT_EQ(newest->size(), 2u);
  EXPECT_EQ(newest->front().id(), "sweep-3");
  EXPECT_EQ(newest->back().id(), "sweep-2");
}

TEST_F(SweepStoreTest, TheNewestJobsMayBeThoseOfNoSweep) {
  const std::string alone = jobs_->Submit("", TrainSpec())->id();
  SweepStep step;
  step.new_jobs.push_back({.spec = TrainSpec(), .trial = 1});
  ASSERT_TRUE(sweeps_->Add("", step).ok());
  const auto all = jobs_->Newest({{.states = {v1::QUEUED}, .limit = 5}});
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_EQ(all->size(), 2u);
  EXPECT_EQ(all->front().sweep(), "sweep-1");
  EXPECT_EQ(all->back().id(), alone);
  EXPECT_EQ(jobs_->Newest({{.states = {v1::QUEUED}, .limit = 1}})->size(), 1u);
  const auto outside = jobs_->Newest(
      {{.states = {v1::QUEUED}, .limit = 5, .outside_sweeps = true},
       {.states = {v1::RUNNING, v1::FAILED}, .limit = 5}});
  ASSERT_EQ(outside->size(), 1u);
  EXPECT_EQ(outside->front().id(), alone);
}

TEST_F(SweepStoreTest, ARepeatedRequestFindsItsSweep) {
  v1::SweepSpec spec;
  spec.set_trials(2);
  EXPECT_FALSE((*sweeps_->FindRequest("a", spec)).has_value());
  Add("a");
  EXPECT_EQ((*sweeps_->FindRequest("a", spec))->id(), "sweep-1");
  EXPECT_FALSE((*sweeps_->FindRequest("", spec)).has_value());
  // A daemon of another version may set these fields otherwise.
  spec.set_tests_best(true);
  spec.set_groups_data(true);
  EXPECT_EQ((*sweeps_->FindRequest("a", spec))->id(), "sweep-1");
  spec.set_trials(3);
  EXPECT_TRUE(absl::IsAlreadyExists(sweeps_->FindRequest("a", spec).status()));
}

TEST_F(SweepStoreTest, ADeletedSweepLeavesItsJobs) {
  Add();
  ASSERT_TRUE(sweeps_->Delete("sweep-1").ok());
  EXPECT_TRUE(absl::IsNotFound(sweeps_->Delete("sweep-1")));
  EXPECT_THAT(*sweeps_->List(), IsEmpty());
  EXPECT_EQ(jobs_->Unended()->size(), 2u);
  // The number is not reused.
  SweepStep step;
  ASSERT_TRUE(sweeps_->Add("", step).ok());
  EXPECT_EQ(step.sweep.id(), "sweep-2");
}

}  // namespace
}  // namespace hearth::server
