#include "proto/options/option_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "hearth/v1/spec.pb.h"
#include "proto/options/option_value.h"

namespace hearth::options {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

const OptionTable& TrainTable() {
  static const auto& table = *new OptionTable(*v1::TrainJobSpec::descriptor());
  return table;
}

const Option& OptionAt(const OptionTable& table, const std::string& path) {
  for (const Option& option : table.options()) {
    if (ToString(option.path) == path) return option;
  }
  ADD_FAILURE() << "no option at " << path;
  return table.options().front();
}

// Collects the value fields below `type` that have no description.
void FindBare(const Descriptor& type, std::vector<std::string>* bare) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    // No option: the daemon sets it.
    if (field.message_type() == v1::AdoptedJob::descriptor()) continue;
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      FindBare(*field.message_type(), bare);
    } else if (!field.options().HasExtension(v1::option)) {
      bare->push_back(field.full_name());
    }
  }
}

TEST(OptionTable, EveryFieldOfATrainJobIsDescribed) {
  for (const Descriptor* type :
       {v1::TrainJobSpec::descriptor(), v1::PrepareSpec::descriptor(),
        v1::ExplainSpec::descriptor()}) {
    std::vector<std::string> bare;
    FindBare(*type, &bare);
    EXPECT_THAT(bare, IsEmpty());
  }
}

TEST(OptionTable, EveryOptionSaysWhatItIs) {
  const OptionTable& table = TrainTable();
  std::set<std::string> explained;
  for (const Option& option : table.options()) {
    EXPECT_NE(option.description.flag(), "") << ToString(option.path);
    EXPECT_NE(option.group, "") << ToString(option.path);
    if (!option.description.help().empty()) {
      explained.insert(option.description.flag());
    }
  }
  for (const Option& option : table.options()) {
    EXPECT_TRUE(explained.contains(option.description.flag()))
        << ToString(option.path);
  }
  for (const Choice& choice : table.choices()) {
    EXPECT_NE(choice.Find(choice.description.default_value()), nullptr)
        << choice.FieldPath();
    for (const std::string& name : choice.Names()) {
      EXPECT_TRUE(choice.description.flag().empty() ||
                  !DescriptionOf(*choice.Find(name)).help().empty())
          << name;
    }
  }
}

// Whether the two are in, or below, different fields of one oneof.
bool ExcludeEachOther(const Option& one, const Option& other) {
  for (size_t i = 0; i < std::min(one.path.size(), other.path.size()); ++i) {
    if (one.path[i] == other.path[i]) continue;
    const auto* oneof = one.path[i]->real_containing_oneof();
    return oneof != nullptr && oneof == other.path[i]->real_containing_oneof();
  }
  return false;
}

// Options with one flag must not both apply: their alternatives differ, or they
// exclude each other.
TEST(OptionTable, AFlagSetsOneFieldOfAJob) {
  const OptionTable& table = TrainTable();
  for (const Option& one : table.options()) {
    for (const Option& other : table.options()) {
      if (&one == &other ||
          one.description.flag() != other.description.flag() ||
          ExcludeEachOther(one, other)) {
        continue;
      }
      ASSERT_FALSE(one.alternatives.empty()) << ToString(one.path);
      for (const FieldDescriptor* alternative : one.alternatives) {
        EXPECT_THAT(other.alternatives, Not(Contains(alternative)))
            << ToString(one.path);
      }
    }
  }
}

TEST(OptionTable, ChoicesAndCommonFlagsAreNoFlagsOfFields) {
  const OptionTable& table = TrainTable();
  std::set<std::string> flags;
  for (const Option& option : table.options()) {
    flags.insert(option.description.flag());
  }
  for (const Option& option : table.options()) {
    EXPECT_FALSE(flags.contains(option.description.common_flag()));
  }
  for (const Choice& choice : table.choices()) {
    EXPECT_FALSE(flags.contains(choice.description.flag()));
  }
}

TEST(OptionTable, EveryNamedAlternativeExists) {
  for (const Option& option : TrainTable().options()) {
    if (!option.description.applies_to().empty()) {
      EXPECT_EQ(option.alternatives.size(),
                option.description.applies_to_size())
          << ToString(option.path);
    }
  }
}

// A default out of bounds would be refused, or not be filled in at all.
TEST(OptionTable, DefaultsAreWithinBounds) {
  for (const Option& option : TrainTable().options()) {
    std::vector<std::string> defaults = {option.description.default_value()};
    for (const auto& other : option.description.default_for()) {
      defaults.push_back(other.value());
    }
    for (const std::string& text : defaults) {
      if (text.empty()) continue;
      v1::TrainJobSpec spec;
      const absl::Status status = SetFromText(option, text, spec);
      EXPECT_TRUE(status.ok())
          << ToString(option.path) << ": " << text << " " << status;
      EXPECT_EQ(ToText(option, spec), text) << ToString(option.path);
    }
  }
}

TEST(OptionTable, PathsLeadToFields) {
  const OptionTable& table = TrainTable();
  EXPECT_EQ(OptionAt(table, "trains[0].gat.heads").field().name(), "heads");
  EXPECT_EQ(OptionAt(table, "data.neighbor.fanouts").group, "data");
  v1::TrainJobSpec spec;
  const Path& path = OptionAt(table, "trains[0].sgd.momentum").path;
  EXPECT_EQ(Find(ParentOf(path), spec), nullptr);
  Make(ParentOf(path), spec);
  EXPECT_TRUE(spec.trains(0).has_sgd());
  EXPECT_EQ(Find(ParentOf(path), spec), &spec.trains(0).sgd());
}

TEST(OptionTable, DescriptionsMayBeThoseOfOthers) {
  const OptionTable& table = TrainTable();
  const v1::Option& decay =
      OptionAt(table, "trains[0].adamw.weight_decay").description;
  EXPECT_EQ(decay.flag(), "weight-decay");
  EXPECT_EQ(decay.help(), "weight decay");
  EXPECT_EQ(decay.default_value(), "0.01");
}

TEST(OptionTable, OptionsApplyToWhatIsChosen) {
  const OptionTable& table = TrainTable();
  v1::TrainJobSpec spec;
  spec.mutable_data()->mutable_ginex();
  const Chosen chosen = table.ChosenIn(spec);
  EXPECT_EQ(chosen.size(), 1);
  EXPECT_TRUE(Applies(OptionAt(table, "data.ginex.superbatch"), chosen));
  EXPECT_TRUE(Applies(OptionAt(table, "data.budgets.cpu_cache_bytes"), chosen));
  EXPECT_TRUE(Applies(OptionAt(table, "data.batch_size"), chosen));
  EXPECT_FALSE(Applies(OptionAt(table, "data.budgets.staging_bytes"), chosen));
  EXPECT_FALSE(Applies(OptionAt(table, "trains[0].gat.heads"), chosen));
}

TEST(OptionTable, AlternativesAreTold) {
  const OptionTable& table = TrainTable();
  v1::TrainJobSpec spec;
  spec.mutable_data()->mutable_memory();
  const Chosen chosen = table.ChosenIn(spec);
  auto caching = OptionAt(table, "data.budgets.cpu_cache_bytes").alternatives;
  constexpr char kCaching[] =
      "not an option of strategy memory; strategies that have it: gnndrive, "
      "ginex, diskgnn, outre, gids, foresight, auto";
  EXPECT_EQ(WhyNotApplied(caching, chosen), kCaching);
  // Each name is told once.
  caching.insert(caching.end(), caching.begin(), caching.end());
  EXPECT_EQ(WhyNotApplied(caching, chosen), kCaching);
  const auto& heads = OptionAt(table, "trains[0].gat.heads").alternatives;
  EXPECT_EQ(WhyNotApplied(heads, chosen), "an option of model gat only");
  spec.add_trains()->mutable_sage();
  EXPECT_EQ(WhyNotApplied(heads, table.ChosenIn(spec)),
            "not an option of model sage; model that has it: gat");
}

TEST(OptionTable, ChoicesComeBeforeTheirOptions) {
  const OptionTable& table = TrainTable();
  ASSERT_EQ(table.choices().size(), 7);
  const Choice& strategy = table.choices()[1];
  EXPECT_EQ(strategy.FieldPath(), "data.strategy");
  EXPECT_THAT(strategy.Names(),
              ElementsAre("memory", "mmap", "gnndrive", "ginex", "diskgnn",
                          "outre", "gids", "foresight", "marius", "auto"));
  EXPECT_EQ(ToString(table.options()[strategy.position].path),
            "data.mmap.read_ahead");
}

}  // namespace
}  // namespace hearth::options
