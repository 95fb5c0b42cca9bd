#include "server/mapping/sweep_mapping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "engine/sweep/search.h"
#include "engine/sweep/space.h"

namespace hearth::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const SpecLimits& kLimits = *new SpecLimits{.processors = 2};

v1::SweepParameter Choices(const std::string& name,
                           std::initializer_list<std::string> values) {
  v1::SweepParameter parameter;
  parameter.set_name(name);
  for (const std::string& value : values) {
    parameter.mutable_choice()->add_values(value);
  }
  return parameter;
}

v1::SweepParameter LogRange(const std::string& name, double low, double high) {
  v1::SweepParameter parameter;
  parameter.set_name(name);
  parameter.mutable_log_uniform()->set_low(low);
  parameter.mutable_log_uniform()->set_high(high);
  return parameter;
}

v1::SweepSpec Spec(std::initializer_list<v1::SweepParameter> space) {
  v1::SweepSpec spec;
  spec.mutable_train()->mutable_data()->set_dataset("cora");
  spec.mutable_train()->mutable_data()->mutable_memory();
  spec.mutable_train()->add_trains()->mutable_sage()->set_hidden(64);
  for (const v1::SweepParameter& parameter : space) {
    *spec.add_space() = parameter;
  }
  return spec;
}

std::string ErrorOf(v1::SweepSpec spec) {
  const absl::Status status = FillAndValidate(kLimits, spec);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(FillAndValidateSweep, FillsTheSearchAndLeavesTheJob) {
  v1::SweepSpec spec = Spec({LogRange("lr", 1e-4, 1e-1)});
  const std::string train = spec.train().SerializeAsString();
  ASSERT_TRUE(FillAndValidate(kLimits, spec).ok());
  EXPECT_TRUE(spec.has_random());
  EXPECT_EQ(spec.trials(), 27u);
  EXPECT_EQ(spec.seeds(), 1u);
  EXPECT_EQ(spec.parallel(), 8u);
  EXPECT_EQ(spec.train().SerializeAsString(), train);
  // Filling in again changes nothing.
  const v1::SweepSpec filled = spec;
  ASSERT_TRUE(FillAndValidate(kLimits, spec).ok());
  EXPECT_EQ(spec.SerializeAsString(), filled.SerializeAsString());
}

TEST(FillAndValidateSweep, ValuesCountOnce) {
  v1::SweepSpec spec =
      Spec({Choices("lr", {"0.01", "1e30", "1e-2", "0.02", "0.01"}),
            Choices("fanouts", {"10,5", "5,5", "10,5"}),
            Choices("model", {"gcn", "sage", "gcn"})});
  spec.mutable_grid();
  ASSERT_TRUE(FillAndValidate(kLimits, spec).ok());
  EXPECT_THAT(spec.space(0).choice().values(),
              ElementsAre("0.01", "1e30", "0.02"));
  EXPECT_THAT(spec.space(1).choice().values(), ElementsAre("10,5", "5,5"));
  EXPECT_THAT(spec.space(2).choice().values(), ElementsAre("gcn", "sage"));
  EXPECT_EQ(ToSearchOptions(spec).trials, 12);
}

TEST(FillAndValidateSweep, ASpaceOfFewPointsIsAGrid) {
  v1::SweepSpec spec = Spec({Choices("lr", {"0.01", "1e30", "0.01", "0.02"}),
                             Choices("batch-size", {"32", "64"})});
  for (const uint32_t trials : {27, 6}) {
    spec.set_trials(trials);
    ASSERT_TRUE(FillAndValidate(kLimits, spec).ok());
    EXPECT_TRUE(spec.every_point());
    EXPECT_TRUE(spec.has_random());
    EXPECT_EQ(spec.trials(), trials);
    ASSERT_EQ(ToSearchOptions(spec).trials, 6);
    EXPECT_EQ(PointOf(spec, 5),
              (sweep::Point{{"lr", "0.02"}, {"batch-size", "64"}}));
    EXPECT_EQ(DataOfTrials(spec), (std::vector<int64_t>{0, 1, 0, 1, 0, 1}));
  }
  spec.set_trials(5);
  ASSERT_TRUE(FillAndValidate(kLimits, spec).ok());
  EXPECT_FALSE(spec.every_point());
  EXPECT_EQ(ToSearchOptions(spec).trials, 5);
  v1::SweepSpec endless = Spec({LogRange("lr", 1e-4, 1e-1)});
  ASSERT_TRUE(FillAndValidate(kLimits, endless).ok());
  EXPECT_FALSE(endless.every_point());
}

TEST(ResultKey, IsEqualWhereJobsAre) {
  v1::SweepSpec spec =
      Spec({Choices("model", {"sage", "gat"}), Choices("heads", {"1", "2"})});
  spec.mutable_train()->mutable_trains(0)->mutable_sage()->clear_hidden();
  ASSERT_TRUE(FillAndValidate(kLimits, spec).ok());
  const auto key = [&](const sweep::Point& point) {
    return ResultKey(kLimits, spec, point);
  };
  const std::string sage = key({{"model", "sage"}, {"heads", "1"}});
  EXPECT_NE(sage, "");
  // GraphSAGE has no heads.
  EXPECT_EQ(key({{"model", "sage"}, {"heads", "2"}}), sage);
  EXPECT_EQ(key({{"model", "sage"}, {"model-seed", "0"}}), sage);
  EXPECT_NE(key({{"model", "sage"}, {"model-seed", "1"}}), sage);
  EXPECT_NE(key({{"model", "gat"}, {"heads", "1"}}),
            key({{"model", "gat"}, {"heads", "2"}}));
  EXPECT_EQ(key({{"lr", "1e-2"}}), key({{"lr", "0.01"}}));
  EXPECT_EQ(key({{"lr", "-1"}}), "");
}

TEST(FillAndValidateSweep, NamesTheFieldAtFault) {
  EXPECT_THAT(ErrorOf(Spec({})), HasSubstr("space: must have a parameter"));
  EXPECT_THAT(ErrorOf(Spec({Choices("width", {"1"})})),
              HasSubstr("space[0].name: \"width\" is not an option"));
  EXPECT_THAT(ErrorOf(Spec({Choices("io-depth", {"1"})})),
              HasSubstr("changes no result"));
  EXPECT_THAT(ErrorOf(Spec({Choices("metric", {"roc_auc"})})),
              HasSubstr("it compares the trials"));
  EXPECT_THAT(ErrorOf(Spec({Choices("skip-test", {"true", "false"})})),
              HasSubstr("it trains nothing"));
  EXPECT_THAT(ErrorOf(Spec({LogRange("class-weights", 1, 8)})),
              HasSubstr("space[0]: class-weights takes"));
  EXPECT_THAT(ErrorOf(Spec({Choices("class-weights", {"1,0"})})),
              HasSubstr("class-weights: \"1,0\" is not"));
  EXPECT_THAT(ErrorOf(Spec({Choices("lr", {"1"}), Choices("lr", {"2"})})),
              HasSubstr("space[1].name: lr is there twice"));
  EXPECT_THAT(ErrorOf(Spec({Choices("lr", {})})), HasSubstr("space[0]"));
  EXPECT_THAT(ErrorOf(Spec({LogRange("lr", 0, 1)})),
              HasSubstr("space[0]: lr must be above 0"));
  EXPECT_THAT(ErrorOf(Spec({LogRange("hidden", 1, 8)})),
              HasSubstr("takes whole numbers"));
  EXPECT_THAT(ErrorOf(Spec({LogRange("fanouts", 1, 8)})),
              HasSubstr("takes lists"));
  EXPECT_THAT(ErrorOf(Spec({LogRange("dropout", 0.1, 1)})),
              HasSubstr("space[0]: dropout: \"1\" is not"));
  v1::SweepSpec many = Spec({Choices("lr", {"1"})});
  many.set_trials(10'001);
  EXPECT_THAT(ErrorOf(many), HasSubstr("trials: must be at most 10000"));
  v1::SweepSpec bad_job = Spec({Choices("lr", {"1"})});
  bad_job.mutable_train()->mutable_data()->set_epochs(200'000);
  EXPECT_THAT(ErrorOf(bad_job), HasSubstr("train.data.epochs"));
  v1::SweepSpec untrained = Spec({Choices("lr", {"1"})});
  untrained.mutable_train()->mutable_trains(0)->mutable_none();
  EXPECT_THAT(ErrorOf(untrained), HasSubstr("train.trains[0].model"));
}

TEST(FillAndValidateSweep, ChecksWhatTrialsMakeOfTheirValues) {
  v1::SweepSpec spec =
      Spec({Choices("model", {"sage", "gat"}), Choices("hidden", {"30"}),
            Choices("heads", {"4"})});
  spec.mutable_grid();
  EXPECT_THAT(ErrorOf(spec), HasSubstr("space: makes trial 2 impossible"));
  *spec.mutable_space(1) = Choices("hidden", {"32"});
  EXPECT_TRUE(FillAndValidate(kLimits, spec).ok());
}

TEST(TrialJobSpec, SetsChoicesFirstAndSeedsByReplica) {
  v1::SweepSpec spec = Spec({Choices("heads", {"2"}), Choices("lr", {"0.5"}),
                             Choices("model", {"gat", "sage"})});
  spec.mutable_grid();
  spec.mutable_train()->mutable_trains(0)->set_model_seed(7);
  ASSERT_TRUE(FillAndValidate(kLimits, spec).ok());
  const auto gat = TrialJobSpec(kLimits, spec, PointOf(spec, 0), 2);
  ASSERT_TRUE(gat.ok()) << gat.status();
  const v1::TrainSpec& train = gat->train().trains(0);
  EXPECT_EQ(train.gat().heads(), 2u);
  EXPECT_EQ(train.gat().hidden(), 64u);
  EXPECT_EQ(train.adam().learning_rate(), 0.5);
  EXPECT_EQ(train.model_seed(), 9u);
  EXPECT_EQ(gat->train().data().batch_size(), 1024u);
  // The option heads does not apply to this model.
  const auto sage = TrialJobSpec(kLimits, spec, PointOf(spec, 1), 0);
  ASSERT_TRUE(sage.ok()) << sage.status();
  EXPECT_TRUE(sage->train().trains(0).has_sage());
}

TEST(TrialJobSpec, LeavesTheTestToTheBestTrial) {
  const auto skips_test = [](v1::SweepSpec spec) {
    EXPECT_TRUE(FillAndValidate(kLimits, spec).ok());
    return TrialJobSpec(kLimits, spec, {}, 0)->train().skip_test();
  };
  v1::SweepSpec spec = Spec({LogRange("lr", 1e-4, 1e-1)});
  EXPECT_TRUE(skips_test(spec));
  spec.set_test_all(true);
  EXPECT_FALSE(skips_test(spec));
  // The end of this sweep is not known.
  spec.set_test_all(false);
  spec.mutable_manual();
  EXPECT_FALSE(skips_test(spec));
  // No test was asked for.
  spec = Spec({LogRange("lr", 1e-4, 1e-1)});
  spec.mutable_train()->set_skip_test(true);
  EXPECT_TRUE(skips_test(spec));
  EXPECT_TRUE(FillAndValidate(kLimits, spec).ok());
  EXPECT_FALSE(spec.tests_best());
}

TEST(TestJobSpec, NamesTheTrainedJobAndHasItsSpec) {
  v1::SweepSpec spec = Spec({LogRange("lr", 1e-4, 1e-1)});
  ASSERT_TRUE(FillAndValidate(kLimits, spec).ok());
  const sweep::Point point = {{"hidden", "32"}};
  const auto job = TestJobSpec(kLimits, spec, point, 2, "train-7");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->evaluate().job_id(), "train-7");
  EXPECT_EQ(job->evaluate().train().SerializeAsString(),
            TrialJobSpec(kLimits, spec, point, 2)->train().SerializeAsString());
}

TEST(TrialJobSpec, FieldsOfOneNameTakeOverFromEachOther) {
  v1::SweepSpec spec =
      Spec({Choices("class-weights", {"none", "balanced", "1,9"})});
  spec.mutable_grid();
  spec.mutable_train()
      ->mutable_trains(0)
      ->mutable_class_weights()
      ->mutable_values()
      ->Add(5);
  ASSERT_TRUE(FillAndValidate(kLimits, spec).ok());
  const auto weighting = [&](int64_t trial) {
    const auto job = TrialJobSpec(kLimits, spec, PointOf(spec, trial), 0);
    EXPECT_TRUE(job.ok()) << job.status();
    return job->train().trains(0);
  };
  EXPECT_FALSE(weighting(0).has_class_weights());
  EXPECT_FALSE(weighting(0).balanced_classes());
  EXPECT_TRUE(weighting(1).balanced_classes());
  EXPECT_EQ(weighting(2).class_weights().values_size(), 2);
}

TEST(TrialJobSpec, DefaultsAreThoseOfWhatIsChosen) {
  v1::SweepSpec spec = Spec({Choices("optimizer", {"adamw"})});
  spec.mutable_grid();
  ASSERT_TRUE(FillAndValidate(kLimits, spec).ok());
  const auto job = TrialJobSpec(kLimits, spec, PointOf(spec, 0), 0);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->train().trains(0).adamw().weight_decay(), 0.01);
}

TEST(ToSearchOptions, TakesTheAlgorithm) {
  v1::SweepSpec spec = Spec({LogRange("lr", 1e-4, 1e-1)});
  spec.mutable_asha()->set_eta(2);
  spec.set_seeds(3);
  spec.set_trials(11);
  ASSERT_TRUE(FillAndValidate(kLimits, spec).ok());
  const sweep::SearchOptions options = ToSearchOptions(spec);
  EXPECT_EQ(options.trials, 11);
  EXPECT_EQ(options.replicas, 3);
  EXPECT_EQ(options.epochs, 5);
  EXPECT_EQ(std::get<sweep::Asha>(options.stopping).eta, 2);
  EXPECT_EQ(std::get<sweep::Asha>(options.stopping).first_rung, 1);
  spec = Spec({Choices("lr", {"1", "2"})});
  spec.mutable_grid();
  EXPECT_EQ(ToSearchOptions(spec).trials, 2);
  spec.mutable_manual();
  spec.set_trials(0);
  EXPECT_TRUE(ToSearchOptions(spec).is_open);
}

TEST(DataOfTrials, NumbersWhatTrialsTrainOn) {
  v1::SweepSpec spec =
      Spec({Choices("lr", {"1", "2"}), Choices("batch-size", {"64", "128"})});
  spec.mutable_grid();
  EXPECT_TRUE(DataOfTrials(spec).empty()) << "that of an earlier daemon";
  ASSERT_TRUE(FillAndValidate(kLimits, spec).ok());
  EXPECT_EQ(DataOfTrials(spec), (std::vector<int64_t>{0, 1, 0, 1}));
  v1::SweepSpec same = Spec({Choices("lr", {"1", "2"})});
  same.mutable_grid();
  ASSERT_TRUE(FillAndValidate(kLimits, same).ok());
  EXPECT_TRUE(DataOfTrials(same).empty());
  v1::SweepSpec fanouts = Spec({Choices("fanouts", {"5,5", "3,3"})});
  fanouts.mutable_grid();
  ASSERT_TRUE(FillAndValidate(kLimits, fanouts).ok());
  EXPECT_EQ(DataOfTrials(fanouts), (std::vector<int64_t>{0, 1}));
}

TEST(Scores, AreGreaterWhereResultsAreBetter) {
  v1::EpochResult result;
  result.set_loss(2);
  EXPECT_TRUE(std::isnan(ScoreOf(result, "accuracy")));
  EXPECT_EQ(ScoreOf(result, "loss"), -2);
  result.set_metric(0.5);
  EXPECT_EQ(ScoreOf(result, "accuracy"), 0.5);
  EXPECT_EQ(ScoreOf(result, "micro_f1"), 0.5);
  EXPECT_EQ(ScoreOf(result, "mse"), -0.5);
  EXPECT_EQ(ValueOf(-0.5, "mse"), 0.5);
  EXPECT_EQ(ValueOf(0.5, "accuracy"), 0.5);
}

TEST(ToPoint, ChecksNamesAndValues) {
  v1::SweepSpec spec = Spec({});
  spec.mutable_manual();
  ASSERT_TRUE(FillAndValidate(kLimits, spec).ok());
  v1::AddTrialRequest request;
  v1::TrialSetting& setting = *request.add_parameters();
  setting.set_name("lr");
  setting.set_value("0.5");
  EXPECT_EQ(*ToPoint(kLimits, spec, request), (sweep::Point{{"lr", "0.5"}}));
  setting.set_value("0");
  EXPECT_THAT(std::string(ToPoint(kLimits, spec, request).status().message()),
              HasSubstr("parameters[0].value: lr: \"0\" is not"));
  setting.set_name("dataset");
  EXPECT_THAT(std::string(ToPoint(kLimits, spec, request).status().message()),
              HasSubstr("parameters[0].name"));
}

}  // namespace
}  // namespace hearth::server
