#include "server/sweeps/live_sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "engine/sweep/space.h"
#include "server/mapping/spec_mapping.h"
#include "server/mapping/sweep_mapping.h"
#include "server/storage/sweep_store.h"

namespace hearth::server {

namespace {

using ::testing::ElementsAre;

v1::TrainJobSpec Data(uint32_t batch_size,
                      const std::vector<int32_t>& fanouts = {5}) {
  v1::TrainJobSpec spec;
  v1::DataSpec& data = *spec.mutable_data();
  data.set_dataset("cora");
  data.mutable_diskgnn();
  data.set_batch_size(batch_size);
  data.set_epochs(3);
  data.set_distinct_epochs(3);
  data.mutable_neighbor()->mutable_fanouts()->Assign(fanouts.begin(),
                                                     fanouts.end());
  spec.add_trains()->mutable_sage();
  return spec;
}

v1::Job Trained(const v1::TrainJobSpec& spec, const std::string& plan = "") {
  v1::Job job;
  *job.mutable_spec()->mutable_train() = spec;
  if (!plan.empty()) {
    job.mutable_report()->mutable_train()->add_preparations()->set_plan(plan);
  }
  return job;
}

bool AllPlans(const std::string& /*plan*/) { return true; }
bool NoPlan(const std::string& /*plan*/) { return false; }

TEST(OrderOfDataTest, NothingIsKnown) {
  EXPECT_THAT(OrderOfData({}, {}, AllPlans), ElementsAre());
  // From the first data on, always the nearest data next.
  EXPECT_THAT(
      OrderOfData({Data(64), Data(1024), Data(80), Data(512)}, {}, AllPlans),
      ElementsAre(0, 2, 3, 1));
  EXPECT_THAT(OrderOfData({Data(64, {5, 5}), Data(64, {5}), Data(64, {-1, 5}),
                           Data(64, {10, 5})},
                          {}, AllPlans),
              ElementsAre(0, 3, 2, 1));
}

TEST(OrderOfDataTest, FanoutsOfSubgraphsAreComparedToo) {
  std::vector<v1::TrainJobSpec> data;
  for (const std::vector<int32_t>& fanouts :
       std::vector<std::vector<int32_t>>{{5, 5}, {20, 5}, {6, 5}}) {
    data.push_back(Data(64));
    v1::SubgraphSampler& sampler =
        *data.back().mutable_data()->mutable_subgraph();
    sampler.mutable_fanouts()->Assign(fanouts.begin(), fanouts.end());
  }
  EXPECT_THAT(OrderOfData(data, {}, AllPlans), ElementsAre(0, 2, 1));
}

TEST(OrderOfDataTest, PlansComeFirstThenWhatWasTrainedOnLately) {
  const std::vector<v1::TrainJobSpec> data = {Data(1), Data(2), Data(3),
                                              Data(4)};
  const std::vector<v1::Job> jobs = {
      Trained(data[3]), Trained(data[1], "diskgnn-a"), Trained(data[3]),
      Trained(data[2], "diskgnn-b")};
  EXPECT_THAT(OrderOfData(data, jobs, AllPlans), ElementsAre(1, 2, 3, 0));
  EXPECT_THAT(
      OrderOfData(data, jobs,
                  [](const std::string& plan) { return plan == "diskgnn-b"; }),
      ElementsAre(2, 1, 3, 0));
  EXPECT_THAT(OrderOfData(data, jobs, NoPlan), ElementsAre(1, 2, 3, 0));
}

TEST(OrderOfDataTest, WhatWasTrainedOnLongAgoIsCold) {
  std::vector<v1::Job> jobs;
  for (uint32_t i = 0; i < 8; ++i) jobs.push_back(Trained(Data(100 + i)));
  jobs.push_back(Trained(Data(2)));
  jobs.push_back(Trained(Data(3), "diskgnn-a"));
  const std::vector<v1::TrainJobSpec> data = {Data(1), Data(2), Data(3),
                                              Data(107)};
  EXPECT_THAT(OrderOfData(data, jobs, AllPlans), ElementsAre(2, 3, 1, 0));
}

TEST(OrderOfDataTest, PreparationsCount) {
  const std::vector<v1::TrainJobSpec> data = {Data(1), Data(2)};
  v1::Job job;
  v1::PrepareSpec& prepare = *job.mutable_spec()->mutable_prepare();
  *prepare.mutable_data() = data[1].data();
  job.mutable_report()->mutable_prepare()->mutable_preparation()->set_plan("p");
  EXPECT_THAT(OrderOfData(data, {job}, AllPlans), ElementsAre(1, 0));
  prepare.set_training_only(true);
  EXPECT_THAT(OrderOfData(data, {job}, AllPlans), ElementsAre(0, 1));
}

using ::testing::HasSubstr;
using ::testing::IsEmpty;

const SpecLimits& kLimits = *new SpecLimits{.processors = 2};

// Three trials of two replicas each, one trial at a time.
v1::Sweep Summary() {
  v1::Sweep sweep;
  v1::SweepSpec& spec = *sweep.mutable_spec();
  spec.mutable_train()->mutable_data()->set_dataset("cora");
  spec.mutable_train()->mutable_data()->mutable_memory();
  v1::TrainSpec& train = *spec.mutable_train()->add_trains();
  train.mutable_sage();
  train.set_train_threads(2);
  v1::SweepParameter& parameter = *spec.add_space();
  parameter.set_name("hidden");
  for (const char* value : {"8", "16", "32"}) {
    parameter.mutable_choice()->add_values(value);
  }
  spec.mutable_grid();
  spec.set_seeds(2);
  spec.set_parallel(1);
  EXPECT_TRUE(FillAndValidate(kLimits, spec).ok());
  return sweep;
}

v1::SweepEvent Begin() {
  v1::SweepEvent event;
  event.mutable_state()->set_state(v1::SWEEP_RUNNING);
  return event;
}

v1::SweepEvent Result(uint32_t replica, double metric) {
  v1::SweepEvent event;
  event.mutable_results()->set_metric("mse");
  v1::EpochResult& result = *event.mutable_results()->add_results();
  result.set_trial(1);
  result.set_replica(replica);
  result.set_epoch(1);
  result.set_metric(metric);
  return event;
}

TEST(LiveSweep, AStepHasTheDecisionsAndTheirJobs) {
  LiveSweep sweep(Summary());
  const SweepStep step = sweep.Apply(kLimits, Begin());
  ASSERT_EQ(step.new_jobs.size(), 2u);
  EXPECT_EQ(step.new_jobs[1].trial, 1u);
  EXPECT_EQ(step.new_jobs[1].replica, 1u);
  EXPECT_EQ(step.new_jobs[1].spec.train().trains(0).sage().hidden(), 8u);
  ASSERT_EQ(step.events.size(), 1u);
  EXPECT_EQ(step.events[0].decisions_size(), 2);
  EXPECT_EQ(step.events[0].decisions(1).action(), v1::TrialDecision::START);
  EXPECT_EQ(step.sweep.state(), v1::SWEEP_RUNNING);
  sweep.Stored(step, {"train-1", "train-2"});
  EXPECT_EQ(sweep.JobOf(0, 1), "train-2");
  EXPECT_EQ(sweep.JobOf(1, 0), "");
}

TEST(LiveSweep, LessIsBetterWhereTheMetricIsAnError) {
  LiveSweep sweep(Summary());
  sweep.Stored(sweep.Apply(kLimits, Begin()), {"train-1", "train-2"});
  sweep.Stored(sweep.Apply(kLimits, Result(0, 0.5)), {});
  sweep.Stored(sweep.Apply(kLimits, Result(1, 0.25)), {});
  const v1::Sweep proto = sweep.ToProto();
  EXPECT_EQ(proto.best_trial(), 1u);
  EXPECT_EQ(proto.best_metric(), 0.375);
  EXPECT_EQ(proto.trials(0).best_job(), "train-2");
  EXPECT_THAT(proto.trials(0).jobs(), ElementsAre("train-1", "train-2"));
  EXPECT_EQ(proto.trials(1).state(), v1::TRIAL_PENDING);
  EXPECT_FALSE(proto.trials(1).has_metric());
}

TEST(LiveSweep, StopsCancelTheJobs) {
  LiveSweep sweep(Summary());
  sweep.Stored(sweep.Apply(kLimits, Begin()), {"train-1", "train-2"});
  v1::SweepEvent stop;
  stop.mutable_state()->set_state(v1::SWEEP_STOPPED);
  const SweepStep step = sweep.Apply(kLimits, stop);
  EXPECT_THAT(step.cancelled, ElementsAre("train-1", "train-2"));
  EXPECT_EQ(step.sweep.state(), v1::SWEEP_STOPPED);
  EXPECT_EQ(step.events.size(), 1u);
}

v1::SweepEvent End(uint32_t trial, uint32_t replica) {
  v1::SweepEvent event;
  event.mutable_ended()->set_trial(trial);
  event.mutable_ended()->set_replica(replica);
  event.mutable_ended()->set_state(v1::SUCCEEDED);
  return event;
}

v1::SweepEvent Tested(uint32_t replica, double metric) {
  v1::SweepEvent event;
  event.mutable_tested()->set_replica(replica);
  event.mutable_tested()->set_state(v1::SUCCEEDED);
  event.mutable_tested()->set_test_metric(metric);
  return event;
}

v1::SweepEvent State(v1::SweepState state) {
  v1::SweepEvent event;
  event.mutable_state()->set_state(state);
  return event;
}

// Trial 1 has the best result; returns the step with which the last trial ends.
SweepStep EndAll(LiveSweep& sweep, const std::string& second_job = "train-2") {
  sweep.Stored(sweep.Apply(kLimits, Begin()), {"train-1", second_job});
  sweep.Stored(sweep.Apply(kLimits, Result(0, 0.5)), {});
  sweep.Stored(sweep.Apply(kLimits, Result(1, 0.25)), {});
  int job = 3;
  for (uint32_t trial = 1; trial < 3; ++trial) {
    sweep.Stored(sweep.Apply(kLimits, End(trial, 0)), {});
    sweep.Stored(
        sweep.Apply(kLimits, End(trial, 1)),
        {"train-" + std::to_string(job), "train-" + std::to_string(job + 1)});
    job += 2;
  }
  sweep.Stored(sweep.Apply(kLimits, End(3, 0)), {});
  return sweep.Apply(kLimits, End(3, 1));
}

TEST(LiveSweep, TheBestTrialIsTestedOnceAllHaveEnded) {
  LiveSweep sweep(Summary());
  SweepStep step = EndAll(sweep);
  ASSERT_EQ(step.new_jobs.size(), 2u);
  for (uint32_t replica = 0; replica < 2; ++replica) {
    const SweepStep::NewJob& job = step.new_jobs[replica];
    EXPECT_EQ(job.trial, 1u);
    EXPECT_EQ(job.replica, replica);
    EXPECT_EQ(job.spec.evaluate().job_id(),
              replica == 0 ? "train-1" : "train-2");
    EXPECT_EQ(job.spec.evaluate().train().trains(0).model_seed(), replica);
  }
  ASSERT_EQ(step.events.size(), 2u);
  EXPECT_EQ(step.events[1].test().trial(), 1u);
  EXPECT_EQ(step.events[1].decisions_size(), 2);
  EXPECT_EQ(step.sweep.state(), v1::SWEEP_RUNNING);
  sweep.Stored(step, {"evaluate-7", "evaluate-8"});
  EXPECT_THAT(sweep.ToProto().trials(0).test_jobs(),
              ElementsAre("evaluate-7", "evaluate-8"));
  EXPECT_EQ(sweep.JobOf(0, 0), "train-1");

  step = sweep.Apply(kLimits, State(v1::SWEEP_PAUSED));
  EXPECT_THAT(step.held, ElementsAre("evaluate-7", "evaluate-8"));
  sweep.Stored(step, {});
  step = sweep.Apply(kLimits, Tested(0, 0.5));
  EXPECT_EQ(step.events.size(), 1u);
  EXPECT_FALSE(step.sweep.has_best_test_metric());
  sweep.Stored(step, {});
  step = sweep.Apply(kLimits, State(v1::SWEEP_RUNNING));
  EXPECT_THAT(step.released, ElementsAre("evaluate-8"));
  sweep.Stored(step, {});
  step = sweep.Apply(kLimits, Tested(1, 1.5));
  EXPECT_EQ(step.sweep.state(), v1::SWEEP_DONE);
  EXPECT_EQ(step.sweep.best_test_metric(), 1);
  EXPECT_EQ(step.events.back().state().state(), v1::SWEEP_DONE);
}

TEST(LiveSweep, AStopEndsTheTestOfTheBestTrial) {
  LiveSweep sweep(Summary());
  sweep.Stored(EndAll(sweep), {"evaluate-7", "evaluate-8"});
  const SweepStep step = sweep.Apply(kLimits, State(v1::SWEEP_STOPPED));
  EXPECT_THAT(step.cancelled, ElementsAre("evaluate-7", "evaluate-8"));
  EXPECT_EQ(step.sweep.state(), v1::SWEEP_STOPPED);
  EXPECT_THAT(step.sweep.test_fault(), HasSubstr("stopped"));
}

TEST(LiveSweep, ABestTrialWhoseJobIsGoneIsNotTested) {
  LiveSweep sweep(Summary());
  const SweepStep step = EndAll(sweep, /*second_job=*/"");
  EXPECT_THAT(step.new_jobs, IsEmpty());
  EXPECT_EQ(step.sweep.state(), v1::SWEEP_DONE);
  EXPECT_THAT(step.sweep.test_fault(), HasSubstr("replica 1 is gone"));
}

TEST(LiveSweep, ATestWhoseJobIsGoneIsPassedOver) {
  LiveSweep sweep(Summary());
  sweep.Stored(EndAll(sweep), {"", "evaluate-8"});
  EXPECT_THAT(sweep.ToProto().trials(0).test_jobs(), ElementsAre("evaluate-8"));
  EXPECT_THAT(sweep.TestJobOf(0), IsEmpty());
  EXPECT_THAT(sweep.TestJobOf(2), IsEmpty());
  SweepStep step = sweep.Apply(kLimits, State(v1::SWEEP_PAUSED));
  EXPECT_THAT(step.held, ElementsAre("evaluate-8"));
  sweep.Stored(step, {});
  step = sweep.Apply(kLimits, State(v1::SWEEP_STOPPED));
  EXPECT_THAT(step.cancelled, ElementsAre("evaluate-8"));
}

TEST(LiveSweep, ABestTrialThatWasStoppedIsNotTested) {
  LiveSweep sweep(Summary());
  sweep.Stored(sweep.Apply(kLimits, Begin()), {"train-1", "train-2"});
  sweep.Stored(sweep.Apply(kLimits, Result(0, 0.5)), {});
  sweep.Stored(sweep.Apply(kLimits, Result(1, 0.25)), {});
  SweepStep step;
  for (uint32_t trial = 1; trial <= 3; ++trial) {
    v1::SweepEvent stop;
    stop.mutable_stop()->set_trial(trial);
    step = sweep.Apply(kLimits, stop);
    sweep.Stored(step, std::vector<std::string>(step.new_jobs.size()));
  }
  EXPECT_EQ(step.sweep.state(), v1::SWEEP_DONE);
  EXPECT_THAT(step.sweep.test_fault(),
              HasSubstr("trial 1, the best, did not train to its end"));
}

// The spec of such a sweep does not say that the best trial is tested.
TEST(LiveSweep, ASweepOfAnEarlierDaemonEndsWithItsTrials) {
  v1::Sweep summary = Summary();
  summary.mutable_spec()->clear_tests_best();
  LiveSweep sweep(summary);
  const SweepStep step = EndAll(sweep);
  EXPECT_THAT(step.new_jobs, IsEmpty());
  EXPECT_EQ(step.sweep.state(), v1::SWEEP_DONE);
}

TEST(LiveSweep, ATrialThatIsEqualToAnEarlierOneTakesItsResult) {
  LiveSweep sweep(Summary());
  v1::SweepEvent begin = Begin();
  for (const uint32_t same_as : {0, 0, 1}) {
    begin.mutable_state()->add_same_as(same_as);
  }
  sweep.Stored(sweep.Apply(kLimits, begin), {"train-1", "train-2"});
  sweep.Stored(sweep.Apply(kLimits, Result(0, 0.5)), {});
  sweep.Stored(sweep.Apply(kLimits, Result(1, 0.25)), {});
  v1::SweepEvent end = End(1, 0);
  end.mutable_ended()->set_test_metric(2);
  sweep.Stored(sweep.Apply(kLimits, end), {});
  end = End(1, 1);
  end.mutable_ended()->set_test_metric(4);
  sweep.Stored(sweep.Apply(kLimits, end), {"train-3", "train-4"});
  sweep.Stored(sweep.Apply(kLimits, End(2, 0)), {});
  // The better one of the two trials is tested.
  const SweepStep last = sweep.Apply(kLimits, End(2, 1));
  ASSERT_EQ(last.new_jobs.size(), 2u);
  EXPECT_EQ(last.new_jobs[0].trial, 1u);
  const v1::Trial taken = sweep.ToProto().trials(2);
  EXPECT_EQ(taken.same_as(), 1u);
  EXPECT_EQ(taken.state(), v1::TRIAL_SUCCEEDED);
  EXPECT_EQ(taken.metric(), 0.375);
  EXPECT_EQ(taken.test_metric(), 3);
  EXPECT_EQ(taken.epochs(), 1u);
  EXPECT_EQ(taken.rank(), 2u);
  EXPECT_THAT(taken.jobs(), IsEmpty());
  EXPECT_EQ(taken.best_job(), "train-2");
}

TEST(LiveSweep, WhatAnEqualTrialWouldNotEndInIsNotTaken) {
  v1::Sweep summary = Summary();
  summary.mutable_spec()->mutable_manual();
  summary.mutable_spec()->set_parallel(9);
  ASSERT_TRUE(FillAndValidate(kLimits, *summary.mutable_spec()).ok());
  LiveSweep sweep(summary);
  sweep.Stored(sweep.Apply(kLimits, Begin()), {});
  const auto add = [&](uint32_t number) {
    v1::SweepEvent event;
    event.mutable_added()->set_trial(number);
    v1::TrialSetting& setting = *event.mutable_added()->add_parameters();
    setting.set_name("lr");
    setting.set_value("0.5");
    sweep.Stored(sweep.Apply(kLimits, event), {"train-1", "train-2"});
  };
  const sweep::Point equal = {{"lr", "5e-1"}};
  EXPECT_EQ(sweep.OriginalOf(kLimits, equal), std::nullopt);
  add(1);
  EXPECT_EQ(sweep.OriginalOf(kLimits, equal), 0);
  EXPECT_EQ(sweep.OriginalOf(kLimits, {{"lr", "0.25"}}), std::nullopt);
  v1::SweepEvent stop;
  stop.mutable_stop()->set_trial(1);
  sweep.Stored(sweep.Apply(kLimits, stop), {});
  EXPECT_EQ(sweep.OriginalOf(kLimits, equal), std::nullopt);
  add(2);
  EXPECT_EQ(sweep.OriginalOf(kLimits, equal), 1);
  v1::SweepEvent failed = End(2, 0);
  failed.mutable_ended()->set_state(v1::FAILED);
  sweep.Stored(sweep.Apply(kLimits, failed), {});
  EXPECT_EQ(sweep.OriginalOf(kLimits, equal), std::nullopt);
  add(3);
  failed.mutable_ended()->set_trial(3);
  failed.mutable_ended()->set_would_repeat(true);
  sweep.Stored(sweep.Apply(kLimits, failed), {});
  EXPECT_EQ(sweep.OriginalOf(kLimits, equal), 2);
}

TEST(LiveSweep, TrialsThatTheMachineCannotRunFail) {
  LiveSweep sweep(Summary());
  // The machine has lost a processor since the sweep was accepted.
  const SweepStep step = sweep.Apply({.processors = 1}, Begin());
  EXPECT_THAT(step.new_jobs, IsEmpty());
  EXPECT_THAT(step.cancelled, IsEmpty());
  EXPECT_EQ(step.sweep.state(), v1::SWEEP_DONE);
  const v1::Sweep proto = sweep.ToProto();
  for (const v1::Trial& trial : proto.trials()) {
    EXPECT_EQ(trial.state(), v1::TRIAL_FAILED);
    EXPECT_THAT(trial.reason(), HasSubstr("train_threads"));
  }
}

}  // namespace

}  // namespace hearth::server
