// hearth.v1.Sweeps with a whole daemon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "hearth/v1/sweeps.grpc.pb.h"
#include "server/storage/job_rows.h"
#include "server/storage/job_store.h"
#include "server/storage/sqlite.h"
#include "server/storage/testing/faulty_vfs.h"
#include "server/testing/test_daemon.h"

namespace hearth::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SweepsTest : public DaemonTest {
 protected:
  // Sweep of six trials over seeds; results depend on the batches.
  static v1::SweepSpec Spec() {
    v1::SweepSpec spec;
    *spec.mutable_train() = TrainSpec("planted").train();
    spec.mutable_train()->mutable_data()->set_epochs(4);
    v1::SweepParameter& seed = *spec.add_space();
    seed.set_name("data-seed");
    seed.mutable_integers()->set_low(0);
    seed.mutable_integers()->set_high(1000);
    spec.mutable_asha();
    spec.set_trials(6);
    return spec;
  }

  std::unique_ptr<v1::Sweeps::Stub> Sweeps() {
    return v1::Sweeps::NewStub(channel_);
  }

  grpc::Status TrySubmitSweep(const v1::SweepSpec& spec, v1::Sweep* sweep,
                              const std::string& request_id = "") {
    grpc::ClientContext context;
    v1::SubmitSweepRequest request;
    request.set_request_id(request_id);
    *request.mutable_spec() = spec;
    return Sweeps()->SubmitSweep(&context, request, sweep);
  }

  v1::Sweep SubmitSweep(const v1::SweepSpec& spec) {
    v1::Sweep sweep;
    const grpc::Status status = TrySubmitSweep(spec, &sweep);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return sweep;
  }

  v1::Sweep GetSweep(const std::string& id) {
    grpc::ClientContext context;
    v1::GetSweepRequest request;
    request.set_id(id);
    v1::Sweep sweep;
    const grpc::Status status = Sweeps()->GetSweep(&context, request, &sweep);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return sweep;
  }

  // Watches a sweep to its end.
  std::vector<v1::SweepEvent> WatchSweep(const std::string& id,
                                         uint64_t from = 1) {
    grpc::ClientContext context;
    v1::WatchSweepRequest request;
    request.set_id(id);
    request.set_from_sequence(from);
    const auto reader = Sweeps()->WatchSweep(&context, request);
    std::vector<v1::SweepEvent> events;
    for (v1::SweepEvent event; reader->Read(&event);) events.push_back(event);
    const grpc::Status status = reader->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
    return events;
  }

  template <typename Request>
  grpc::Status Change(grpc::Status (v1::Sweeps::Stub::*method)(
                          grpc::ClientContext*, const Request&, v1::Sweep*),
                      const std::string& id, v1::Sweep* sweep) {
    grpc::ClientContext context;
    Request request;
    request.set_id(id);
    return (*Sweeps().*method)(&context, request, sweep);
  }

  void DeleteSweep(const std::string& id) {
    grpc::ClientContext context;
    v1::DeleteSweepRequest request;
    request.set_id(id);
    google::protobuf::Empty empty;
    const grpc::Status status =
        Sweeps()->DeleteSweep(&context, request, &empty);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }

  // Restarts the daemon with a store that has lost `job`.
  void RestartWithout(const std::string& job) {
    daemon_.reset();
    {
      const auto store = JobStore::Open(
          io::FileSystem::Posix(), config_.data_dir + "/hearth.db",
          Clock::Real(), [](const std::string&) {});
      ASSERT_TRUE(store.ok()) << store.status();
      const absl::Status status =
          (*store)->Transact([&](Database&, JobRows& rows, ChangedJobs&) {
            return rows.Delete(job);
          });
      ASSERT_TRUE(status.ok()) << status;
    }
    std::filesystem::remove_all(config_.data_dir + "/jobs/" + job);
    Start();
  }

  // Decisions of a sweep, without times and ids.
  static std::vector<std::string> DecisionsOf(const v1::Sweep& sweep) {
    std::vector<std::string> decisions;
    for (v1::Trial trial : sweep.trials()) {
      trial.clear_jobs();
      trial.clear_best_job();
      trial.clear_test_jobs();
      // A restart may separate trials that shared passes.
      trial.clear_shared_with();
      decisions.push_back(trial.SerializeAsString());
    }
    return decisions;
  }
};

TEST_F(SweepsTest, TrainsItsTrialsAndTellsAllOfThem) {
  Import("planted");
  const v1::Sweep begun = SubmitSweep(Spec());
  EXPECT_EQ(begun.state(), v1::SWEEP_RUNNING);
  EXPECT_EQ(begun.trials_size(), 6);
  const std::vector<v1::SweepEvent> events = WatchSweep(begun.id());
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].sequence(), i + 1);
  }
  EXPECT_EQ(events.back().state().state(), v1::SWEEP_DONE);
  const v1::Sweep done = GetSweep(begun.id());
  EXPECT_EQ(done.state(), v1::SWEEP_DONE);
  EXPECT_EQ(done.last_sequence(), events.size());
  EXPECT_EQ(done.metric(), "accuracy");
  const v1::Trial& best = done.trials(static_cast<int>(done.best_trial()) - 1);
  EXPECT_EQ(best.rank(), 1u);
  EXPECT_EQ(best.metric(), done.best_metric());
  double highest = 0;
  const v1::Job job = Get(best.best_job());
  for (const v1::EpochReport& epoch : job.report().train().epochs()) {
    highest = std::max(highest, epoch.valid_metric());
  }
  EXPECT_EQ(highest, done.best_metric());
  // A watch of an ended sweep may begin anywhere.
  EXPECT_EQ(WatchSweep(begun.id(), events.size()).size(), 1u);
  EXPECT_TRUE(WatchSweep(begun.id(), events.size() + 1).empty());
}

TEST_F(SweepsTest, GoesOnAfterARestartWithTheSameDecisions) {
  Import("planted");
  const std::string undisturbed = SubmitSweep(Spec()).id();
  WatchSweep(undisturbed);
  gate_.Close();
  const std::string sweep = SubmitSweep(Spec()).id();
  gate_.AwaitWaiting();
  for (int restart = 0; restart < 3; ++restart) {
    gate_.Open();
    daemon_.reset();
    gate_.Close();
    Start();
    if (GetSweep(sweep).state() != v1::SWEEP_RUNNING) break;
    gate_.AwaitWaiting();
  }
  gate_.Open();
  WatchSweep(sweep);
  EXPECT_EQ(DecisionsOf(GetSweep(sweep)), DecisionsOf(GetSweep(undisturbed)));
}

TEST_F(SweepsTest, AFaultOfTheDatabaseChangesNoDecision) {
  Import("planted");
  // Queued jobs overtake a job that waits for the disk.
  v1::SweepSpec spec = Spec();
  spec.set_parallel(1);
  const std::string undisturbed = SubmitSweep(spec).id();
  WatchSweep(undisturbed);
  const std::vector<std::string> expected = DecisionsOf(GetSweep(undisturbed));
  // Data that earlier jobs have trained on would come first.
  DeleteSweep(undisturbed);
  int64_t hits = 0;
  for (const VfsOperation operation :
       {VfsOperation::kSync, VfsOperation::kWrite}) {
    for (const int64_t nth : {1, 8, 27, 64}) {
      gate_.Close();
      const std::string sweep = SubmitSweep(spec).id();
      gate_.AwaitWaiting();
      vfs_.Inject({.operation = operation, .nth = nth});
      gate_.Open();
      WatchSweep(sweep);
      hits += vfs_.hits();
      vfs_.Clear();
      EXPECT_EQ(DecisionsOf(GetSweep(sweep)), expected) << nth;
      DeleteSweep(sweep);
    }
  }
  EXPECT_GT(hits, 4);
}

TEST_F(SweepsTest, ARepeatedRequestGivesTheSameSweep) {
  Import("planted");
  v1::Sweep first;
  v1::Sweep second;
  ASSERT_TRUE(TrySubmitSweep(Spec(), &first, "once").ok());
  ASSERT_TRUE(TrySubmitSweep(Spec(), &second, "once").ok());
  EXPECT_EQ(first.id(), second.id());
  v1::SweepSpec other = Spec();
  other.set_trials(7);
  EXPECT_EQ(TrySubmitSweep(other, &second, "once").error_code(),
            grpc::StatusCode::ALREADY_EXISTS);
  WatchSweep(first.id());
}

TEST_F(SweepsTest, PausesGoesOnAndStops) {
  Import("planted");
  gate_.Close();
  const std::string id = SubmitSweep(Spec()).id();
  gate_.AwaitWaiting();
  v1::Sweep sweep;
  ASSERT_TRUE(Change(&v1::Sweeps::Stub::PauseSweep, id, &sweep).ok());
  EXPECT_EQ(sweep.state(), v1::SWEEP_PAUSED);
  for (const v1::Trial& trial : sweep.trials()) {
    for (const std::string& job : trial.jobs()) EXPECT_TRUE(Get(job).held());
  }
  // The dataset cannot be deleted meanwhile.
  EXPECT_EQ(DeleteDataset("planted").error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  ASSERT_TRUE(Change(&v1::Sweeps::Stub::ResumeSweep, id, &sweep).ok());
  EXPECT_EQ(sweep.state(), v1::SWEEP_RUNNING);
  ASSERT_TRUE(Change(&v1::Sweeps::Stub::StopSweep, id, &sweep).ok());
  EXPECT_EQ(sweep.state(), v1::SWEEP_STOPPED);
  gate_.Open();
  for (const v1::Trial& trial : sweep.trials()) {
    EXPECT_EQ(trial.state(), v1::TRIAL_STOPPED);
    for (const std::string& job : trial.jobs()) {
      EXPECT_EQ(AwaitEnd(job).state(), v1::CANCELLED);
    }
  }
  EXPECT_EQ(Change(&v1::Sweeps::Stub::ResumeSweep, id, &sweep).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_TRUE(Change(&v1::Sweeps::Stub::StopSweep, id, &sweep).ok());
  EXPECT_EQ(
      Change(&v1::Sweeps::Stub::StopSweep, "sweep-9", &sweep).error_code(),
      grpc::StatusCode::NOT_FOUND);
}

TEST_F(SweepsTest, ACancelledJobIsAStoppedTrial) {
  Import("planted");
  gate_.Close();
  const v1::Sweep begun = SubmitSweep(Spec());
  gate_.AwaitWaiting();
  ASSERT_TRUE(Cancel(begun.trials(0).jobs(0)).ok());
  gate_.Open();
  WatchSweep(begun.id());
  const v1::Trial trial = GetSweep(begun.id()).trials(0);
  EXPECT_EQ(trial.state(), v1::TRIAL_STOPPED);
  EXPECT_THAT(trial.reason(), HasSubstr("was cancelled"));
}

TEST_F(SweepsTest, TestsTheBestTrialAlone) {
  Import("planted");
  v1::SweepSpec spec = Spec();
  spec.set_seeds(2);
  const std::string id = SubmitSweep(spec).id();
  WatchSweep(id);
  const v1::Sweep done = GetSweep(id);
  double sum = 0;
  for (const v1::Trial& trial : done.trials()) {
    const bool is_best = trial.number() == done.best_trial();
    EXPECT_EQ(trial.has_test_metric(), is_best);
    EXPECT_EQ(trial.test_jobs_size(), is_best ? 2 : 0);
    for (const std::string& job : trial.jobs()) {
      EXPECT_FALSE(Get(job).report().train().has_test_metric());
    }
    for (int i = 0; i < trial.test_jobs_size(); ++i) {
      const v1::Job test = Get(trial.test_jobs(i));
      EXPECT_EQ(test.sweep(), id);
      EXPECT_EQ(test.spec().evaluate().job_id(), trial.jobs(i));
      // The result equals that of the job alone.
      v1::JobSpec alone = Get(trial.jobs(i)).spec();
      alone.mutable_train()->clear_skip_test();
      alone.mutable_train()->clear_join();
      const v1::Job job = AwaitEnd(Submit(alone));
      EXPECT_EQ(job.report().train().test_metric(),
                test.report().evaluate().test_metric());
      sum += test.report().evaluate().test_metric();
    }
  }
  EXPECT_EQ(done.best_test_metric(), sum / 2);
  EXPECT_EQ(done.test_fault(), "");
}

TEST_F(SweepsTest, TestsAllOrNoneIfAsked) {
  Import("planted");
  v1::SweepSpec spec = Spec();
  spec.set_trials(2);
  spec.set_test_all(true);
  spec.mutable_random();
  const std::string all = SubmitSweep(spec).id();
  WatchSweep(all);
  const v1::Sweep tested = GetSweep(all);
  for (const v1::Trial& trial : tested.trials()) {
    EXPECT_EQ(trial.test_metric(),
              Get(trial.jobs(0)).report().train().test_metric());
    EXPECT_NE(trial.test_metric(), 0);
    EXPECT_EQ(trial.test_jobs_size(), 0);
  }
  EXPECT_TRUE(tested.has_best_test_metric());
  spec.set_test_all(false);
  spec.mutable_train()->set_skip_test(true);
  const std::string none = SubmitSweep(spec).id();
  WatchSweep(none);
  EXPECT_FALSE(GetSweep(none).has_best_test_metric());
  EXPECT_EQ(GetSweep(none).test_fault(), "");
}

TEST_F(SweepsTest, WhileTheDaemonDrainsNoTrialBegins) {
  Import("planted");
  gate_.Close();
  v1::SweepSpec spec = Spec();
  spec.mutable_random();
  spec.set_trials(2);
  spec.set_parallel(1);
  const v1::Sweep begun = SubmitSweep(spec);
  gate_.AwaitWaiting();
  const std::string queued = Submit(TrainSpec("planted"));
  SetDraining(true);
  gate_.Open();
  EXPECT_EQ(AwaitEnd(begun.trials(0).jobs(0)).state(), v1::SUCCEEDED);
  // Earlier jobs go on.
  EXPECT_EQ(AwaitEnd(queued).state(), v1::SUCCEEDED);
  v1::Trial waiting;
  do {
    waiting = GetSweep(begun.id()).trials(1);
  } while (waiting.waiting_reason().empty());
  EXPECT_THAT(waiting.waiting_reason(), HasSubstr("drains"));
  EXPECT_EQ(Get(waiting.jobs(0)).state(), v1::QUEUED);
  SetDraining(false);
  EXPECT_EQ(WatchSweep(begun.id()).back().state().state(), v1::SWEEP_DONE);
  EXPECT_EQ(GetSweep(begun.id()).trials(1).waiting_reason(), "");
}

TEST_F(SweepsTest, ARestartGoesOnWithTheTestAndEndsADrain) {
  Import("planted");
  gate_.Close();
  v1::SweepSpec spec = Spec();
  spec.mutable_random();
  spec.set_trials(1);
  const v1::Sweep begun = SubmitSweep(spec);
  gate_.AwaitWaiting();
  SetDraining(true);
  gate_.Open();
  v1::Trial tested;
  do {
    tested = GetSweep(begun.id()).trials(0);
  } while (tested.waiting_reason().empty());
  EXPECT_EQ(tested.state(), v1::TRIAL_SUCCEEDED);
  EXPECT_EQ(tested.test_jobs_size(), 1);
  v1::Sweep sweep = GetSweep(begun.id());
  EXPECT_EQ(sweep.state(), v1::SWEEP_RUNNING);
  EXPECT_FALSE(sweep.has_best_test_metric());
  // The sweep can be paused, and no trial can be added.
  ASSERT_TRUE(Change(&v1::Sweeps::Stub::PauseSweep, begun.id(), &sweep).ok());
  EXPECT_TRUE(Get(tested.test_jobs(0)).held());
  EXPECT_EQ(
      Change(&v1::Sweeps::Stub::AddTrial, begun.id(), &sweep).error_code(),
      grpc::StatusCode::FAILED_PRECONDITION);
  daemon_.reset();
  Start();
  EXPECT_EQ(GetSweep(begun.id()).state(), v1::SWEEP_PAUSED);
  ASSERT_TRUE(Change(&v1::Sweeps::Stub::ResumeSweep, begun.id(), &sweep).ok());
  EXPECT_EQ(WatchSweep(begun.id()).back().state().state(), v1::SWEEP_DONE);
  EXPECT_TRUE(GetSweep(begun.id()).has_best_test_metric());
}

TEST_F(SweepsTest, ATestWhoseJobIsGoneEndsTheSweepWithoutIt) {
  Import("planted");
  gate_.Close();
  v1::SweepSpec spec = Spec();
  spec.mutable_random();
  spec.set_trials(1);
  const v1::Sweep begun = SubmitSweep(spec);
  gate_.AwaitWaiting();
  SetDraining(true);
  gate_.Open();
  v1::Trial tested;
  do {
    tested = GetSweep(begun.id()).trials(0);
  } while (tested.waiting_reason().empty());
  RestartWithout(tested.test_jobs(0));
  WatchSweep(begun.id());
  const v1::Sweep done = GetSweep(begun.id());
  EXPECT_EQ(done.state(), v1::SWEEP_DONE);
  EXPECT_THAT(done.test_fault(), HasSubstr("test job of replica 0 is gone"));
}

TEST_F(SweepsTest, ATestThatIsCancelledEndsTheSweepWithoutIt) {
  Import("planted");
  gate_.Close();
  v1::SweepSpec spec = Spec();
  spec.mutable_random();
  spec.set_trials(1);
  const v1::Sweep begun = SubmitSweep(spec);
  gate_.AwaitWaiting();
  SetDraining(true);
  gate_.Open();
  v1::Trial tested;
  do {
    tested = GetSweep(begun.id()).trials(0);
  } while (tested.waiting_reason().empty());
  // The model stays as long as it is needed.
  EXPECT_EQ(DeleteJob(tested.jobs(0)).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  ASSERT_TRUE(Cancel(tested.test_jobs(0)).ok());
  WatchSweep(begun.id());
  const v1::Sweep done = GetSweep(begun.id());
  EXPECT_EQ(done.state(), v1::SWEEP_DONE);
  EXPECT_FALSE(done.has_best_test_metric());
  EXPECT_THAT(done.test_fault(), HasSubstr("was cancelled"));
}

TEST_F(SweepsTest, BeginsWithTheDataThatJobsHaveTrainedOn) {
  Import("planted");
  v1::SweepSpec spec = Spec();
  spec.mutable_space(0)->set_name("batch-size");
  spec.mutable_space(0)->mutable_choice()->add_values("32");
  spec.mutable_space(0)->mutable_choice()->add_values("48");
  spec.mutable_grid();
  spec.clear_trials();
  spec.set_parallel(1);
  v1::JobSpec job;
  *job.mutable_train() = spec.train();
  job.mutable_train()->mutable_data()->set_batch_size(48);
  ASSERT_EQ(AwaitEnd(Submit(job)).state(), v1::SUCCEEDED);
  const std::string id = SubmitSweep(spec).id();
  const std::vector<v1::SweepEvent> events = WatchSweep(id);
  EXPECT_THAT(events[0].state().data_order(), ElementsAre(1, 0));
  EXPECT_EQ(events[0].decisions(0).trial(), 2u);
  // All epochs of one sweep come in the order of their numbers.
  const std::string again = SubmitSweep(spec).id();
  EXPECT_EQ(WatchSweep(again)[0].decisions(0).trial(), 1u);
}

class JudgedTest : public SweepsTest {
 protected:
  // Begins a sweep with one trial, whose job waits `verdict_wait` seconds after
  // its epochs; returns the sweep's id.
  std::string Begin(uint32_t verdict_wait) {
    Import("planted");
    v1::SweepSpec spec;
    *spec.mutable_train() = TrainSpec("planted").train();
    spec.mutable_train()->mutable_data()->set_epochs(4);
    spec.mutable_manual()->set_verdict_wait(verdict_wait);
    const std::string id = SubmitSweep(spec).id();
    v1::Sweep sweep;
    EXPECT_TRUE(Change(&v1::Sweeps::Stub::AddTrial, id, &sweep).ok());
    return id;
  }

  void AwaitEpoch(const std::string& id, uint32_t epoch) {
    while (GetSweep(id).trials(0).epochs() < epoch) {
    }
  }

  grpc::Status Continue(const std::string& id, uint32_t epoch,
                        uint32_t trial = 1) {
    grpc::ClientContext context;
    v1::ContinueTrialRequest request;
    request.set_id(id);
    request.set_trial(trial);
    request.set_epoch(epoch);
    google::protobuf::Empty empty;
    return Sweeps()->ContinueTrial(&context, request, &empty);
  }

  v1::Job JobOf(const std::string& id) {
    return AwaitEnd(GetSweep(id).trials(0).jobs(0));
  }

  // Adds a second trial that differs from the first one.
  v1::Sweep AddAnother(const std::string& id) {
    grpc::ClientContext context;
    v1::AddTrialRequest request;
    request.set_id(id);
    v1::TrialSetting& size = *request.add_parameters();
    size.set_name("batch-size");
    size.set_value("48");
    v1::Sweep sweep;
    EXPECT_TRUE(Sweeps()->AddTrial(&context, request, &sweep).ok());
    return sweep;
  }
};

TEST_F(JudgedTest, ATrialWaitsForItsVerdict) {
  const std::string id = Begin(60);
  AwaitEpoch(id, 1);
  ASSERT_TRUE(Continue(id, 1).ok());
  AwaitEpoch(id, 2);
  grpc::ClientContext context;
  v1::StopTrialRequest request;
  request.set_id(id);
  request.set_trial(1);
  v1::Sweep sweep;
  ASSERT_TRUE(Sweeps()->StopTrial(&context, request, &sweep).ok());
  EXPECT_EQ(JobOf(id).state(), v1::CANCELLED);
  EXPECT_EQ(JobOf(id).report().train().epochs_size(), 2);
  EXPECT_EQ(Continue(id, 1, 2).error_code(), grpc::StatusCode::NOT_FOUND);
  ASSERT_TRUE(Change(&v1::Sweeps::Stub::StopSweep, id, &sweep).ok());
  EXPECT_TRUE(Continue(id, 1).ok()) << "it does not wait";
}

TEST_F(JudgedTest, VerdictsMayComeBeforeTheirEpochs) {
  const std::string id = Begin(60);
  ASSERT_TRUE(Continue(id, 3).ok());
  EXPECT_EQ(JobOf(id).state(), v1::SUCCEEDED);
  EXPECT_TRUE(JobOf(id).report().train().has_test_metric());
}

TEST_F(JudgedTest, ATrialDoesNotWaitForEver) {
  const std::string id = Begin(1);
  ASSERT_TRUE(Continue(id, 2).ok());
  EXPECT_EQ(JobOf(id).state(), v1::SUCCEEDED);
}

TEST_F(JudgedTest, APauseAStopAndARestartEndTheWait) {
  const std::string id = Begin(60);
  AwaitEpoch(id, 1);
  v1::Sweep sweep;
  ASSERT_TRUE(Change(&v1::Sweeps::Stub::PauseSweep, id, &sweep).ok());
  ASSERT_TRUE(Change(&v1::Sweeps::Stub::ResumeSweep, id, &sweep).ok());
  daemon_.reset();
  Start();
  ASSERT_TRUE(Continue(id, 1).ok());
  AwaitEpoch(id, 2);
  ASSERT_TRUE(Change(&v1::Sweeps::Stub::StopSweep, id, &sweep).ok());
  EXPECT_EQ(JobOf(id).state(), v1::CANCELLED);
  EXPECT_EQ(JobOf(id).report().train().epochs_size(), 2);
}

// The other job's wait, which began earlier, is not over either.
TEST_F(JudgedTest, AJobThatIsCancelledWaitsForNoVerdict) {
  daemon_.reset();
  config_.max_running_jobs = 2;
  Start();
  const std::string id = Begin(60);
  AwaitEpoch(id, 1);
  v1::Sweep sweep = AddAnother(id);
  const std::string job = sweep.trials(1).jobs(0);
  while (GetSweep(id).trials(1).epochs() < 1) {
  }
  ASSERT_TRUE(Cancel(job).ok());
  EXPECT_EQ(AwaitEnd(job).state(), v1::CANCELLED);
  EXPECT_EQ(GetSweep(id).trials(0).epochs(), 1u);
  ASSERT_TRUE(Change(&v1::Sweeps::Stub::StopSweep, id, &sweep).ok());
}

TEST_F(JudgedTest, ATrialWhoseJobIsGoneFails) {
  const std::string id = Begin(60);
  AwaitEpoch(id, 1);
  v1::Sweep sweep;
  ASSERT_TRUE(Change(&v1::Sweeps::Stub::PauseSweep, id, &sweep).ok());
  RestartWithout(sweep.trials(0).jobs(0));
  v1::Trial trial;
  do {
    trial = GetSweep(id).trials(0);
  } while (trial.state() != v1::TRIAL_FAILED);
  EXPECT_THAT(trial.reason(), HasSubstr("trial 1, replica 0 is gone"));
}

TEST_F(JudgedTest, JobsStayAsLongAsTheirSweepNeedsThem) {
  const std::string id = Begin(60);
  v1::Sweep sweep = AddAnother(id);
  ASSERT_TRUE(Change(&v1::Sweeps::Stub::PauseSweep, id, &sweep).ok());
  const std::string job = sweep.trials(1).jobs(0);
  ASSERT_TRUE(Cancel(job).ok());
  EXPECT_EQ(AwaitEnd(job).state(), v1::CANCELLED);
  const grpc::Status refused = DeleteJob(job);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(refused.error_message(), HasSubstr(id));
  ASSERT_TRUE(Change(&v1::Sweeps::Stub::StopSweep, id, &sweep).ok());
  EXPECT_TRUE(DeleteJob(job).ok());
}

TEST_F(SweepsTest, TellsWithWhichTrialsATrialSharesItsPasses) {
  Import("planted");
  v1::SweepSpec spec = Spec();
  spec.mutable_random();
  spec.set_trials(3);
  // Trials on different data each.
  const std::string apart = SubmitSweep(spec).id();
  WatchSweep(apart);
  const v1::Sweep each = GetSweep(apart);
  for (const v1::Trial& trial : each.trials()) {
    EXPECT_EQ(trial.shared_with_size(), 0);
  }
  spec.mutable_space(0)->set_name("lr");
  spec.mutable_space(0)->mutable_uniform()->set_low(0.1);
  spec.mutable_space(0)->mutable_uniform()->set_high(0.2);
  const std::string together = SubmitSweep(spec).id();
  WatchSweep(together);
  const v1::Sweep done = GetSweep(together);
  EXPECT_THAT(done.trials(0).shared_with(), ElementsAre(2, 3));
  EXPECT_THAT(done.trials(2).shared_with(), ElementsAre(1, 2));
}

TEST_F(SweepsTest, NamesTheFieldAtFaultAndTheUnknownDataset) {
  v1::Sweep sweep;
  v1::SweepSpec spec = Spec();
  EXPECT_EQ(TrySubmitSweep(spec, &sweep).error_code(),
            grpc::StatusCode::NOT_FOUND);
  spec.mutable_space(0)->set_name("nothing");
  const grpc::Status status = TrySubmitSweep(spec, &sweep);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("space[0].name"));
  SetDraining(true);
  EXPECT_EQ(TrySubmitSweep(Spec(), &sweep).error_code(),
            grpc::StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace hearth::server
