#include "proto/options/option_value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "hearth/v1/spec.pb.h"
#include "proto/options/option_table.h"

namespace hearth::options {

namespace {

using ::testing::HasSubstr;

const Option& OptionAt(const std::string& path) {
  static const auto& table = *new OptionTable(*v1::TrainJobSpec::descriptor());
  for (const Option& option : table.options()) {
    if (ToString(option.path) == path) return option;
  }
  ADD_FAILURE() << "no option at " << path;
  return table.options().front();
}

v1::TrainJobSpec Set(const std::string& path, const std::string& text) {
  v1::TrainJobSpec spec;
  const absl::Status status = SetFromText(OptionAt(path), text, spec);
  EXPECT_TRUE(status.ok()) << text << ": " << status;
  return spec;
}

std::string ErrorOf(const std::string& path, const std::string& text) {
  v1::TrainJobSpec spec;
  const absl::Status status = SetFromText(OptionAt(path), text, spec);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(status.message());
}

std::string BoundsOf(const std::string& path, const v1::TrainJobSpec& spec) {
  const std::vector<Violation> violations = CheckBounds(OptionAt(path), spec);
  return violations.empty() ? "" : violations.front().text;
}

TEST(SetFromText, TakesEachTypeOfField) {
  EXPECT_EQ(Set("data.dataset", "cora").data().dataset(), "cora");
  EXPECT_EQ(Set("data.batch_size", "512").data().batch_size(), 512);
  EXPECT_EQ(Set("data.data_seed", "18446744073709551615").data().data_seed(),
            18446744073709551615u);
  EXPECT_THAT(Set("data.neighbor.fanouts", "15,-1").data().neighbor().fanouts(),
              testing::ElementsAre(15, -1));
  EXPECT_EQ(Set("trains[0].dropout", "0.2").trains(0).dropout(), 0.2);
  EXPECT_TRUE(Set("data.mmap.read_ahead", "normal").data().mmap().read_ahead());
  EXPECT_EQ(Set("data.budgets.cpu_cache_bytes", "1.5KiB")
                .data()
                .budgets()
                .cpu_cache_bytes(),
            1536);
  EXPECT_EQ(Set("data.diskgnn.disk_limit_ratio", "2.5x")
                .data()
                .diskgnn()
                .disk_limit_ratio(),
            2.5);
}

TEST(SetFromText, TheWordForUnsetClears) {
  v1::TrainJobSpec spec = Set("data.diskgnn.disk_cache_bytes", "7");
  EXPECT_TRUE(
      SetFromText(OptionAt("data.diskgnn.disk_cache_bytes"), "auto", spec)
          .ok());
  EXPECT_FALSE(spec.data().diskgnn().has_disk_cache_bytes());
}

TEST(SetFromText, TellsWhatAValueMayBe) {
  EXPECT_EQ(ErrorOf("data.epochs", "many"),
            "is not a whole number from 1 to 100000");
  EXPECT_EQ(ErrorOf("data.data_seed", "-1"),
            "is not a whole number from 0 to 18446744073709551615");
  EXPECT_EQ(ErrorOf("trains[0].adam.learning_rate", "0"),
            "is not a number above 0");
  EXPECT_EQ(ErrorOf("trains[0].dropout", "nan"),
            "is not a number of at least 0 and below 1");
  EXPECT_EQ(ErrorOf("data.mmap.read_ahead", "yes"),
            "is not one of random, normal");
  EXPECT_EQ(ErrorOf("data.ginex.superbatch", "0"),
            "is not auto or a whole number from 1 to 1048576");
  EXPECT_EQ(ErrorOf("data.diskgnn.prepare_memory_bytes", "1KiB"),
            "is not auto or a size such as 512MiB or 4GB of at least 16MiB");
  EXPECT_EQ(ErrorOf("data.diskgnn.disk_limit_ratio", "3"),
            "is not a multiple such as 2.5x above 0 and at most 1000000");
  for (const char* fanouts : {"", "10,", "0", "-2", "10;10", "3000000000"}) {
    EXPECT_EQ(ErrorOf("data.neighbor.fanouts", fanouts),
              "is not a list of up to 16 whole numbers from 1 to 1048576, or "
              "-1 (all neighbors)");
  }
}

TEST(ToText, IsWhatSetFromTextTakes) {
  for (const auto& [path, text] :
       {std::pair{"data.budgets.cpu_cache_bytes", "1536"},
        {"data.budgets.cpu_cache_bytes", "3KiB"},
        {"data.budgets.cpu_cache_bytes", "1024TiB"},
        {"data.budgets.cpu_cache_bytes", "0"},
        {"data.neighbor.fanouts", "10,-1"},
        {"trains[0].adam.learning_rate", "0.003"},
        {"data.gnndrive.reorder", "true"},
        {"data.diskgnn.disk_limit_ratio", "2.5x"},
        {"data.diskgnn.disk_cache_bytes", "auto"},
        {"data.refresh_epochs", "never"},
        {"trains[0].patience", "0"}}) {
    EXPECT_EQ(ToText(OptionAt(path), Set(path, text)), text) << path;
  }
}

TEST(ToText, ZeroIsNoValueWhereItIsOutOfBounds) {
  EXPECT_EQ(ToText(OptionAt("data.epochs"), v1::TrainJobSpec()), std::nullopt);
  EXPECT_EQ(
      ToText(OptionAt("trains[0].adam.learning_rate"), v1::TrainJobSpec()),
      std::nullopt);
  EXPECT_EQ(ToText(OptionAt("trains[0].dropout"), v1::TrainJobSpec()), "0");
}

TEST(DefaultOf, MayDifferForAnAlternative) {
  v1::TrainJobSpec spec;
  const OptionTable table(*v1::TrainJobSpec::descriptor());
  spec.mutable_data()->mutable_mmap();
  const Option& extractors = OptionAt("pipeline.extractors");
  EXPECT_EQ(DefaultOf(extractors, table.ChosenIn(spec)), "1");
  spec.mutable_data()->mutable_gnndrive();
  EXPECT_EQ(DefaultOf(extractors, table.ChosenIn(spec)), "2");
}

TEST(DefaultOf, OfAChoiceMayDifferForAnEarlierOne) {
  const OptionTable table(*v1::TrainJobSpec::descriptor());
  const auto order = std::find_if(
      table.choices().begin(), table.choices().end(),
      [](const Choice& choice) { return choice.FieldPath() == "data.order"; });
  ASSERT_NE(order, table.choices().end());
  v1::TrainJobSpec spec;
  spec.mutable_data()->mutable_ginex();
  EXPECT_EQ(DefaultOf(*order, table.ChosenIn(spec)), "shuffled");
  spec.mutable_data()->mutable_outre();
  EXPECT_EQ(DefaultOf(*order, table.ChosenIn(spec)), "partition");
}

TEST(CheckBounds, SaysWhichBound) {
  v1::TrainJobSpec spec;
  EXPECT_EQ(BoundsOf("data.batch_size", spec), "");
  spec.mutable_data()->set_batch_size(1 << 21);
  EXPECT_EQ(BoundsOf("data.batch_size", spec),
            "must be at most 1048576, not 2097152");
  v1::TrainSpec& train = *spec.add_trains();
  train.set_dropout(1);
  EXPECT_EQ(BoundsOf("trains[0].dropout", spec), "must be below 1, not 1");
  train.set_dropout(-0.5);
  EXPECT_EQ(BoundsOf("trains[0].dropout", spec),
            "must be at least 0, not -0.5");
  train.set_dropout(std::nan(""));
  EXPECT_THAT(BoundsOf("trains[0].dropout", spec), HasSubstr("finite number"));
  train.mutable_adam()->set_learning_rate(-1);
  EXPECT_EQ(BoundsOf("trains[0].adam.learning_rate", spec),
            "must be above 0, not -1");
  spec.mutable_data()->mutable_diskgnn()->set_prepare_memory_bytes(4096);
  EXPECT_EQ(BoundsOf("data.diskgnn.prepare_memory_bytes", spec),
            "must be at least 16MiB, not 4KiB");
}

TEST(SetFromText, TakesListsOfNumbersAndWords) {
  EXPECT_THAT(Set("trains[0].class_weights.values", "1,2.5")
                  .trains(0)
                  .class_weights()
                  .values(),
              testing::ElementsAre(1, 2.5));
  EXPECT_EQ(ErrorOf("trains[0].class_weights.values", "1,0"),
            "is not a list of up to 65536 numbers above 0");
  EXPECT_EQ(Set("trains[0].metric", "roc_auc").trains(0).metric(), "roc_auc");
  EXPECT_EQ(Set("trains[0].metric", "auto").trains(0).metric(), "");
  EXPECT_EQ(ErrorOf("trains[0].metric", "auc"),
            "is not auto or one of accuracy, micro_f1, mse, roc_auc, "
            "average_precision");
  EXPECT_EQ(ErrorOf("trains[0].balanced_classes", "true"),
            "is not one of none, balanced");
}

// Fields of one flag that are alternatives are unset together.
TEST(SetFromText, UnsetsTheOtherFieldsOfAOneof) {
  v1::TrainJobSpec spec = Set("trains[0].class_weights.values", "1,2.5");
  EXPECT_EQ(ToText(OptionAt("trains[0].class_weights.values"), spec), "1,2.5");
  ASSERT_TRUE(
      SetFromText(OptionAt("trains[0].balanced_classes"), "none", spec).ok());
  EXPECT_FALSE(spec.trains(0).has_class_weights());
  EXPECT_EQ(ToText(OptionAt("trains[0].balanced_classes"), spec), "none");
}

TEST(CheckBounds, NamesWordsThatATextMayBe) {
  v1::TrainJobSpec spec;
  spec.add_trains()->set_metric("auc");
  EXPECT_EQ(BoundsOf("trains[0].metric", spec),
            "must be auto or one of accuracy, micro_f1, mse, roc_auc, "
            "average_precision, not \"auc\"");
  spec.mutable_trains(0)->set_metric("mse");
  EXPECT_EQ(BoundsOf("trains[0].metric", spec), "");
}

TEST(CheckBounds, NamesElementsOfLists) {
  v1::TrainJobSpec spec;
  v1::NeighborSampler& sampler = *spec.mutable_data()->mutable_neighbor();
  sampler.mutable_fanouts()->Add(-1);
  sampler.mutable_fanouts()->Add(0);
  std::vector<Violation> violations =
      CheckBounds(OptionAt("data.neighbor.fanouts"), spec);
  ASSERT_EQ(violations.size(), 1);
  EXPECT_EQ(violations[0].index, 1);
  EXPECT_EQ(violations[0].text,
            "must be at least 1, or -1 (all neighbors), not 0");
  sampler.mutable_fanouts()->Resize(17, 5);
  violations = CheckBounds(OptionAt("data.neighbor.fanouts"), spec);
  ASSERT_EQ(violations.size(), 1);
  EXPECT_EQ(violations[0].index, std::nullopt);
  EXPECT_EQ(violations[0].text, "must have at most 16 entries, not 17");
}

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
