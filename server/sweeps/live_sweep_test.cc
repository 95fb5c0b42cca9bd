#include "server/sweeps/live_sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/mapping/spec_mapping.h"
#include "server/mapping/sweep_mapping.h"
#include "server/storage/sweep_store.h"

namespace hearth::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr SpecLimits kLimits = {.processors = 2, .has_gpu = false};

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

TEST(LiveSweep, TrialsThatTheMachineCannotRunFail) {
  LiveSweep sweep(Summary());
  // It has lost a processor since the sweep was accepted.
  const SweepStep step =
      sweep.Apply({.processors = 1, .has_gpu = false}, Begin());
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
