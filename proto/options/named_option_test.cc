#include "proto/options/named_option.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "hearth/v1/spec.pb.h"

namespace hearth::options {
namespace {

using ::testing::HasSubstr;

const OptionTable& Table() {
  static const auto& table = *new OptionTable(*v1::TrainJobSpec::descriptor());
  return table;
}

v1::TrainJobSpec Base() {
  v1::TrainJobSpec spec;
  spec.mutable_data()->mutable_memory();
  spec.mutable_data()->mutable_neighbor();
  v1::TrainSpec& train = *spec.add_trains();
  train.mutable_sage()->set_hidden(64);
  train.mutable_adam()->set_learning_rate(0.5);
  return spec;
}

absl::Status Set(const std::string& name, const std::string& text,
                 v1::TrainJobSpec& spec) {
  return SetNamed(Table(), FindNamed(Table(), name), text, spec);
}

TEST(NamedOption, FindsFlagsAndChoices) {
  EXPECT_TRUE(FindNamed(Table(), "learning_rate").empty());
  EXPECT_TRUE(FindNamed(Table(), "").empty());
  EXPECT_EQ(FindNamed(Table(), "lr").options.size(), 3u);
  EXPECT_NE(FindNamed(Table(), "model").choice, nullptr);
  EXPECT_EQ(FindNamed(Table(), "seed").options.size(), 2u);
}

TEST(NamedOption, SetsTheFieldThatApplies) {
  v1::TrainJobSpec spec = Base();
  ASSERT_TRUE(Set("lr", "0.25", spec).ok());
  ASSERT_TRUE(Set("fanouts", "10,-1", spec).ok());
  ASSERT_TRUE(Set("hidden", "32", spec).ok());
  EXPECT_EQ(spec.trains(0).adam().learning_rate(), 0.25);
  EXPECT_EQ(spec.trains(0).sage().hidden(), 32u);
  EXPECT_EQ(spec.data().neighbor().fanouts_size(), 2);
}

TEST(NamedOption, SetsAllFieldsOfACommonFlag) {
  v1::TrainJobSpec spec = Base();
  ASSERT_TRUE(Set("seed", "9", spec).ok());
  EXPECT_EQ(spec.data().data_seed(), 9u);
  EXPECT_EQ(spec.trains(0).model_seed(), 9u);
}

TEST(NamedOption, AnotherAlternativeKeepsWhatBothHave) {
  v1::TrainJobSpec spec = Base();
  ASSERT_TRUE(Set("model", "gat", spec).ok());
  EXPECT_EQ(spec.trains(0).gat().hidden(), 64u);
  EXPECT_EQ(spec.trains(0).gat().heads(), 0u);
  ASSERT_TRUE(Set("heads", "2", spec).ok());
  ASSERT_TRUE(Set("model", "gat", spec).ok());
  EXPECT_EQ(spec.trains(0).gat().heads(), 2u);
  ASSERT_TRUE(Set("optimizer", "sgd", spec).ok());
  EXPECT_EQ(spec.trains(0).sgd().learning_rate(), 0.5);
}

TEST(NamedOption, FieldsOfOneNameTakeOverFromEachOther) {
  v1::TrainJobSpec spec = Base();
  ASSERT_TRUE(Set("class-weights", "1,9", spec).ok());
  EXPECT_EQ(spec.trains(0).class_weights().values_size(), 2);
  ASSERT_TRUE(Set("class-weights", "balanced", spec).ok());
  EXPECT_TRUE(spec.trains(0).balanced_classes());
  EXPECT_FALSE(spec.trains(0).has_class_weights());
  ASSERT_TRUE(Set("class-weights", "1,9", spec).ok());
  ASSERT_TRUE(Set("class-weights", "none", spec).ok());
  EXPECT_FALSE(spec.trains(0).has_balanced_classes());
  EXPECT_FALSE(spec.trains(0).has_class_weights());
}

TEST(NamedOption, RefusesWhatItCannotBe) {
  v1::TrainJobSpec spec = Base();
  EXPECT_THAT(std::string(Set("hidden", "0", spec).message()),
              HasSubstr("from 1 to 65536"));
  EXPECT_TRUE(absl::IsInvalidArgument(Set("model", "mlp", spec)));
  const absl::Status heads = Set("heads", "2", spec);
  EXPECT_TRUE(absl::IsFailedPrecondition(heads));
  EXPECT_THAT(std::string(heads.message()),
              HasSubstr("models that have it: gat"));
}

}  // namespace
}  // namespace hearth::options
