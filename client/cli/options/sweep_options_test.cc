#include "client/cli/options/sweep_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/statusor.h"
#include "client/cli/options/option_values.h"

namespace hearth::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<v1::SweepParameter> Parse(const std::string& text) {
  return ParameterFromText("lr", {text, "--space lr"});
}

TEST(ParameterFromText, TakesChoicesAndRanges) {
  EXPECT_THAT(Parse("sage,gcn")->choice().values(), ElementsAre("sage", "gcn"));
  EXPECT_THAT(Parse("10,10|5,5")->choice().values(),
              ElementsAre("10,10", "5,5"));
  EXPECT_THAT(Parse("64")->choice().values(), ElementsAre("64"));
  EXPECT_EQ(Parse("int:32:256:4")->integers().low(), 32);
  EXPECT_EQ(Parse("int:32:256:4")->integers().high(), 256);
  EXPECT_EQ(Parse("int:32:256:4")->integers().steps(), 4u);
  EXPECT_EQ(Parse("uniform:-1:0.5")->uniform().low(), -1);
  EXPECT_EQ(Parse("log:1e-4:1e-1")->log_uniform().high(), 0.1);
  EXPECT_EQ(Parse("log:1e-4:1e-1")->log_uniform().steps(), 0u);
}

TEST(ParameterFromText, RefusesAnythingElse) {
  for (const char* text : {"", "a,,b", "int:1", "int:1.5:2", "log:a:b",
                           "uniform:0:1:0", "uniform:0:1:2:3", "log:1:2:x"}) {
    const auto parameter = Parse(text);
    ASSERT_FALSE(parameter.ok()) << text;
    EXPECT_THAT(std::string(parameter.status().message()),
                HasSubstr("--space lr: \""));
  }
}

TEST(AddSpace, TakesEachParameterOnce) {
  OptionValues values;
  EXPECT_TRUE(AddSpace("lr=log:1e-4:1e-1", values).ok());
  EXPECT_EQ(values.at("space.lr").text, "log:1e-4:1e-1");
  EXPECT_THAT(std::string(AddSpace("lr=1", values).message()),
              HasSubstr("twice"));
  EXPECT_FALSE(AddSpace("lr", values).ok());
  EXPECT_FALSE(AddSpace("=1", values).ok());
}

TEST(SweepFromOptions, TakesAFileOfAllKinds) {
  const auto values = ParseYamlOptions(
      "dataset: cora\n"
      "epochs: 9\n"
      "algorithm: asha\n"
      "eta: 2\n"
      "trials: 12\n"
      "space:\n"
      "  lr: log:1e-4:1e-1\n"
      "  hidden: [64, 128]\n"
      "  fanouts: [\"10,10\", \"5,5\"]\n",
      "sweep.yaml", {"dataset", "epochs", "algorithm", "eta", "trials"},
      {"space"});
  ASSERT_TRUE(values.ok()) << values.status();
  const auto spec = SweepFromOptions(*values);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->train().data().epochs(), 9u);
  EXPECT_EQ(spec->asha().eta(), 2u);
  EXPECT_EQ(spec->trials(), 12u);
  ASSERT_EQ(spec->space_size(), 3);
  EXPECT_EQ(spec->space(0).name(), "fanouts");
  EXPECT_THAT(spec->space(0).choice().values(), ElementsAre("10,10", "5,5"));
  EXPECT_THAT(spec->space(1).choice().values(), ElementsAre("64", "128"));
  EXPECT_EQ(spec->space(2).log_uniform().low(), 1e-4);
}

TEST(SweepFromOptions, NamesTheLineOfABadFile) {
  const auto flat = ParseYamlOptions("space: lr\n", "s.yaml", {}, {"space"});
  EXPECT_THAT(std::string(flat.status().message()), HasSubstr("s.yaml line 1"));
  const auto twice =
      ParseYamlOptions("space:\n  lr: 1\n  lr: 2\n", "s.yaml", {}, {"space"});
  EXPECT_THAT(std::string(twice.status().message()),
              HasSubstr("s.yaml line 3"));
}

TEST(SweepFromOptions, RefusesOptionsOfOtherAlgorithms) {
  const auto spec = SweepFromOptions({{"dataset", {"cora", "--dataset"}},
                                      {"algorithm", {"grid", "--algorithm"}},
                                      {"eta", {"3", "--eta"}}});
  EXPECT_THAT(std::string(spec.status().message()),
              HasSubstr("algorithms that have it: asha, halving"));
}

// --metric is an option of jobs and of sweeps.
TEST(SweepFromOptions, TheMetricIsThatOfTheJobsOrTheLoss) {
  const auto with = [](const char* metric) {
    const auto spec = SweepFromOptions(
        {{"dataset", {"cora", "--dataset"}}, {"metric", {metric, "--metric"}}});
    EXPECT_TRUE(spec.ok()) << spec.status();
    return *spec;
  };
  EXPECT_EQ(with("roc_auc").train().trains(0).metric(), "roc_auc");
  EXPECT_FALSE(with("roc_auc").by_loss());
  EXPECT_EQ(with("valid").train().trains(0).metric(), "");
  EXPECT_TRUE(with("loss").by_loss());
  const auto spec = SweepFromOptions(
      {{"dataset", {"cora", "--dataset"}}, {"metric", {"auc", "--metric"}}});
  EXPECT_THAT(std::string(spec.status().message()),
              HasSubstr("average_precision or one of valid, loss"));
}

TEST(SearchFlags, AreThoseOfTheSearch) {
  std::string names;
  for (const Flag& flag : SearchFlags()) names += flag.name + " ";
  EXPECT_EQ(names,
            "algorithm eta first-rung verdict-wait trials seeds parallel "
            "sweep-seed test metric ");
}

TEST(NameSweepFlags, NamesParametersAndFlags) {
  v1::SweepSpec spec;
  spec.add_space()->set_name("lr");
  const OptionValues values = {{"space.lr", {"1", "--space lr"}}};
  EXPECT_EQ(
      NameSweepFlags("space[0].name: \"lr\" is; train.data.batch_size: no",
                     spec, values),
      "--space lr: \"lr\" is; --batch-size: no");
}

}  // namespace
}  // namespace hearth::cli
