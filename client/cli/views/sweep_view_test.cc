#include "client/cli/views/sweep_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace hearth::cli {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

v1::SweepEvent ResultEvent(uint32_t trial, uint32_t epoch, double metric,
                           uint32_t replica = 0) {
  v1::SweepEvent event;
  event.mutable_results()->set_metric("accuracy");
  v1::EpochResult& result = *event.mutable_results()->add_results();
  result.set_trial(trial);
  result.set_replica(replica);
  result.set_epoch(epoch);
  result.set_metric(metric);
  result.set_loss(0.5);
  result.set_job("train-1");
  return event;
}

v1::Sweep TwoTrials() {
  v1::Sweep sweep;
  sweep.set_id("sweep-1");
  sweep.set_state(v1::SWEEP_RUNNING);
  sweep.set_metric("accuracy");
  sweep.set_best_trial(2);
  sweep.set_best_metric(0.75);
  sweep.mutable_spec()->add_space()->set_name("fanouts");
  for (uint32_t number = 1; number <= 2; ++number) {
    v1::Trial& trial = *sweep.add_trials();
    trial.set_number(number);
    trial.set_rank(3 - number);
    v1::TrialSetting& setting = *trial.add_parameters();
    setting.set_name("fanouts");
    setting.set_value("10,5");
  }
  sweep.mutable_trials(0)->set_state(v1::TRIAL_STOPPED);
  sweep.mutable_trials(0)->set_reason("number 2 of 2");
  for (const uint32_t other : {2, 3, 4, 7}) {
    sweep.mutable_trials(0)->add_shared_with(other);
  }
  sweep.mutable_trials(1)->set_state(v1::TRIAL_SUCCEEDED);
  sweep.mutable_trials(1)->set_metric(0.75);
  return sweep;
}

TEST(SweepView, ShowsTheLeaderTheCurvesAndWhatWasStoppedWhy) {
  SweepHistory history;
  history.Add(ResultEvent(2, 1, 0.25));
  history.Add(ResultEvent(2, 2, 0.75));
  std::ostringstream out;
  PrintSweep(TwoTrials(), history, out);
  EXPECT_THAT(out.str(), HasSubstr("best so far: trial 2, accuracy 0.75"));
  EXPECT_THAT(out.str(), ContainsRegex("stopped +2-4, 7 +number 2 of 2\n"));
  EXPECT_THAT(out.str(), HasSubstr("▁█"));
}

TEST(SweepView, ShowsTheTestOrWhyThereIsNone) {
  v1::Sweep sweep = TwoTrials();
  sweep.set_best_test_metric(0.625);
  sweep.mutable_trials(1)->set_test_metric(0.625);
  std::ostringstream out;
  PrintSweep(sweep, SweepHistory(), out);
  EXPECT_THAT(out.str(), HasSubstr("accuracy 0.75, test 0.625"));
  EXPECT_THAT(out.str(), ContainsRegex("0.75 +0.625 +1 +succeeded"));
  PrintTrial(sweep, sweep.trials(1), out);
  EXPECT_THAT(out.str(), ContainsRegex("test +0.625\n"));
  sweep = TwoTrials();
  sweep.set_test_fault("train-7 was deleted");
  PrintSweep(sweep, SweepHistory(), out);
  EXPECT_THAT(out.str(), HasSubstr("was not tested: train-7 was deleted"));
}

TEST(SweepView, ShowsWhatATrialWaitsFor) {
  v1::Sweep sweep = TwoTrials();
  sweep.mutable_trials(1)->set_state(v1::TRIAL_RUNNING);
  sweep.mutable_trials(1)->set_waiting_reason("hearthd drains");
  std::ostringstream out;
  PrintSweep(sweep, SweepHistory(), out);
  EXPECT_THAT(out.str(), ContainsRegex("running +hearthd drains"));
}

TEST(SweepView, LiveTableHasTheBestAlone) {
  std::ostringstream out;
  PrintSweep(TwoTrials(), SweepHistory(), out, 1);
  EXPECT_THAT(out.str(), Not(HasSubstr("number 2 of 2")));
  EXPECT_THAT(out.str(), HasSubstr("succeeded"));
}

TEST(SweepView, CurvesAreMeansOverReplicas) {
  SweepHistory history;
  history.Add(ResultEvent(1, 1, 1, 0));
  history.Add(ResultEvent(1, 1, 3, 1));
  history.Add(ResultEvent(1, 2, 5, 0));
  EXPECT_THAT(history.CurveOf(1), ElementsAre(2));
  EXPECT_THAT(history.CurveOf(2), IsEmpty());
}

TEST(SweepView, CsvHasALineForEachEpoch) {
  SweepHistory history;
  history.Add(ResultEvent(1, 1, 0.25));
  history.Add(ResultEvent(2, 1, 0.75));
  std::ostringstream out;
  WriteCsv(TwoTrials(), history, out);
  EXPECT_EQ(out.str(),
            "trial,replica,job,fanouts,epoch,loss,metric,state,rank\n"
            "1,0,train-1,\"10,5\",1,0.5,0.25,stopped,2\n"
            "2,0,train-1,\"10,5\",1,0.5,0.75,succeeded,1\n");
}

TEST(SweepView, TellsWhoseResultATrialTakes) {
  v1::Sweep sweep = TwoTrials();
  sweep.mutable_spec()->set_every_point(true);
  sweep.mutable_spec()->set_trials(27);
  v1::Trial& equal = *sweep.add_trials();
  equal = sweep.trials(0);
  equal.set_number(3);
  equal.set_rank(3);
  equal.set_same_as(1);
  SweepHistory history;
  history.Add(ResultEvent(1, 1, 0.25));
  std::ostringstream out;
  PrintSweep(sweep, history, out);
  EXPECT_THAT(out.str(), HasSubstr("no more points than the 27 trials"));
  EXPECT_THAT(out.str(), HasSubstr("█      same as trial 1: number 2 of 2\n"));
  out.str("");
  PrintSweep(sweep, history, out, 2);
  EXPECT_THAT(out.str(), Not(HasSubstr("same as")));
  EXPECT_THAT(out.str(), HasSubstr("number 2 of 2"));
}

void Decide(v1::SweepEvent& event, v1::TrialDecision::Action action,
            uint32_t trial, uint32_t replicas = 2) {
  for (uint32_t replica = 0; replica < replicas; ++replica) {
    v1::TrialDecision& decision = *event.add_decisions();
    decision.set_trial(trial);
    decision.set_replica(replica);
    decision.set_action(action);
    decision.set_reason("too bad");
  }
}

v1::SweepEvent EndEvent(uint32_t trial, uint32_t replica, v1::JobState state) {
  v1::SweepEvent event;
  event.mutable_ended()->set_trial(trial);
  event.mutable_ended()->set_replica(replica);
  event.mutable_ended()->set_state(state);
  return event;
}

TEST(SweepLog, HasALineForEachTrialThatEnds) {
  SweepLog log;
  v1::SweepEvent begin;
  begin.mutable_state()->set_state(v1::SWEEP_RUNNING);
  for (const uint32_t trial : {1, 2, 3}) {
    Decide(begin, v1::TrialDecision::START, trial);
  }
  EXPECT_THAT(log.Take(begin), ElementsAre("running"));
  EXPECT_THAT(log.Take(ResultEvent(1, 1, 0.5)), IsEmpty());
  EXPECT_THAT(log.Take(EndEvent(1, 1, v1::SUCCEEDED)), IsEmpty());
  EXPECT_THAT(log.Take(EndEvent(1, 0, v1::SUCCEEDED)),
              ElementsAre("trial 1 succeeded"));
  v1::SweepEvent stop = ResultEvent(2, 1, 0.5);
  Decide(stop, v1::TrialDecision::STOP, 2);
  EXPECT_THAT(log.Take(stop), ElementsAre("trial 2 stopped: too bad"));
  v1::SweepEvent failed = EndEvent(3, 0, v1::FAILED);
  failed.mutable_ended()->set_reason("diverged");
  Decide(failed, v1::TrialDecision::STOP, 3);
  EXPECT_THAT(log.Take(failed), ElementsAre("trial 3 failed: diverged"));
  v1::SweepEvent test;
  test.mutable_test()->set_trial(1);
  Decide(test, v1::TrialDecision::START, 1);
  EXPECT_THAT(log.Take(test), ElementsAre("trial 1, the best, is tested"));
  v1::SweepEvent tested;
  tested.mutable_tested()->set_reason("out of luck");
  EXPECT_THAT(log.Take(tested), ElementsAre("no test: out of luck"));
}

TEST(SweepLog, NamesEqualTrialsWithTheirOriginal) {
  SweepLog log;
  v1::SweepEvent begin;
  begin.mutable_state()->set_state(v1::SWEEP_RUNNING);
  for (const uint32_t same_as : {0, 1, 0, 1, 3}) {
    begin.mutable_state()->add_same_as(same_as);
  }
  Decide(begin, v1::TrialDecision::START, 1, 1);
  Decide(begin, v1::TrialDecision::START, 3, 1);
  EXPECT_THAT(
      log.Take(begin),
      ElementsAre("running",
                  "trials 2, 4 are the same as trial 1 and take its result",
                  "trial 5 is the same as trial 3 and takes its result"));
  v1::SweepEvent added;
  added.mutable_added()->set_trial(6);
  added.mutable_added()->set_same_as(1);
  EXPECT_THAT(
      log.Take(added),
      ElementsAre("trial 6 is the same as trial 1 and takes its result"));
  v1::SweepEvent stop;
  stop.mutable_stop()->set_trial(4);
  EXPECT_THAT(log.Take(stop), ElementsAre("trial 4 stopped"));
  EXPECT_THAT(log.Take(EndEvent(1, 0, v1::SUCCEEDED)),
              ElementsAre("trial 1 (and 2, 6) succeeded"));
  stop.mutable_stop()->set_trial(3);
  Decide(stop, v1::TrialDecision::STOP, 3, 1);
  EXPECT_THAT(log.Take(stop), ElementsAre("trial 3 (and 5) stopped: too bad"));
}

}  // namespace
}  // namespace hearth::cli
