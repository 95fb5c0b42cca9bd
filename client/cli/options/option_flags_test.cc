#include "client/cli/options/option_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "hearth/v1/spec.pb.h"

namespace hearth::cli {
namespace {

const std::vector<Flag>& Flags() {
  static const auto& table =
      *new options::OptionTable(*v1::TrainJobSpec::descriptor());
  static const auto& flags = *new std::vector<Flag>(FlagsOf(table));
  return flags;
}

const Flag& Named(const std::string& name) {
  for (const Flag& flag : Flags()) {
    if (flag.name == name) return flag;
  }
  ADD_FAILURE() << "no flag " << name;
  return Flags().front();
}

TEST(FlagsOf, NamesEachOnce) {
  std::set<std::string> names;
  for (const Flag& flag : Flags()) {
    EXPECT_TRUE(names.insert(flag.name).second) << flag.name;
    EXPECT_NE(flag.Help(), "") << flag.name;
    EXPECT_NE(flag.Group(), "") << flag.name;
    EXPECT_TRUE(flag.required() || flag.Default() != "") << flag.name;
  }
}

TEST(FlagsOf, JoinsTheFieldsOfAFlag) {
  EXPECT_EQ(Named("hidden").options.size(), 8);
  EXPECT_EQ(Named("disk-limit").options.size(), 4);
  EXPECT_TRUE(Named("seed").common);
  EXPECT_EQ(Named("seed").options.size(), 2);
  EXPECT_NE(Named("strategy").choice, nullptr);
}

TEST(Flag, TellsItsDefault) {
  EXPECT_EQ(Named("epochs").Default(), "5");
  EXPECT_EQ(Named("extractors").Default(), "1; gnndrive 2; auto 2");
  EXPECT_EQ(Named("weight-decay").Default(), "0; adamw 0.01");
  EXPECT_EQ(Named("model").Default(), "sage");
  EXPECT_EQ(Named("order").Default(), "shuffled; outre partition");
  EXPECT_EQ(Named("disk-limit").Default(), "none");
  EXPECT_EQ(Named("seed").Default(), "0");
  EXPECT_TRUE(Named("dataset").required());
}

TEST(Flag, TellsWhatItBelongsTo) {
  EXPECT_EQ(Named("batch-size").Group(), "data");
  EXPECT_EQ(Named("strategy").Group(), "strategy");
  EXPECT_EQ(Named("superbatch").Group(), "strategies ginex and outre");
  EXPECT_EQ(
      Named("cpu-cache").Group(),
      "strategies gnndrive, ginex, diskgnn, outre, gids, foresight and auto");
  EXPECT_EQ(Named("neighbor-rank").Group(), "strategy ginex");
  EXPECT_EQ(Named("hidden").Group(), "model");
  EXPECT_EQ(Named("heads").Group(), "models gat, gatv2 and rgat");
  EXPECT_EQ(Named("lr").Group(), "optimizer");
  EXPECT_EQ(Named("momentum").Group(), "optimizer sgd");
  EXPECT_EQ(Named("samplers").Group(), "pipeline");
}

TEST(Flag, TellsWhatItsValueMayBe) {
  EXPECT_EQ(Named("cpu-cache").ValueName(), "auto|SIZE");
  EXPECT_EQ(Named("disk-limit").ValueName(), "SIZE|Nx");
  EXPECT_EQ(Named("mmap-advice").ValueName(), "random|normal");
  EXPECT_EQ(Named("optimizer").ValueName(), "adam|adamw|sgd");
  EXPECT_EQ(Named("fanouts").ValueName(), "NODES,...");
  EXPECT_EQ(Named("epochs").Values(), "a whole number from 1 to 100000");
}

TEST(FlagOfField, KnowsWholePathsAndTheirEnds) {
  const auto flag_of = [](const char* path) {
    const Flag* flag = FlagOfField(Flags(), path);
    return flag == nullptr ? "" : flag->name;
  };
  EXPECT_EQ(flag_of("train.data.batch_size"), "batch-size");
  EXPECT_EQ(flag_of("explain.train.trains[0].gat.hidden"), "hidden");
  EXPECT_EQ(flag_of("learning_rate"), "lr");
  EXPECT_EQ(flag_of("budgets.staging_bytes"), "staging");
  EXPECT_EQ(flag_of("prepare.data.strategy"), "strategy");
  EXPECT_EQ(flag_of("data.data_seed"), "data-seed");
  EXPECT_EQ(flag_of("rate"), "");
  EXPECT_EQ(flag_of("train.data"), "");
}

}  // namespace
}  // namespace hearth::cli
