#include "client/launcher/launch.h"

#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace hearth::launcher {
namespace {

using Values = std::map<std::string, std::string>;

absl::StatusOr<std::optional<Launch>> Find(const Values& values) {
  return FindLaunch([&](const char* name) {
    const auto found = values.find(name);
    return found == values.end() ? nullptr : found->second.c_str();
  });
}

const Values kTorchrun = {
    {"RANK", "3"},           {"WORLD_SIZE", "4"},
    {"MASTER_ADDR", "gpu1"}, {"TORCHELASTIC_RUN_ID", "night"},
    {"LOCAL_RANK", "1"},     {"LOCAL_WORLD_SIZE", "2"}};

TEST(LaunchTest, ReadsVariablesOfTorchrun) {
  const auto launch = Find(kTorchrun);
  ASSERT_TRUE(launch.ok() && launch->has_value()) << launch.status();
  EXPECT_EQ((*launch)->by, "torchrun");
  EXPECT_EQ((*launch)->rank, 3u);
  EXPECT_EQ((*launch)->size, 4u);
  EXPECT_EQ((*launch)->leader, "gpu1");
  EXPECT_EQ((*launch)->run, "night");
  EXPECT_EQ((*launch)->local_rank, 1u);
  EXPECT_TRUE((*launch)->shares_machine);
  EXPECT_FALSE((*launch)->is_on_one_machine);
}

TEST(LaunchTest, ReadsVariablesOfAStepOfSlurm) {
  const auto launch = Find({{"SLURM_PROCID", "1"},
                            {"SLURM_STEP_NUM_TASKS", "3"},
                            {"SLURM_STEP_NODELIST", "gpu[03-05,07],login1"},
                            {"SLURM_STEP_NUM_NODES", "3"},
                            {"SLURM_LOCALID", "0"},
                            {"SLURM_JOB_ID", "4711"}});
  ASSERT_TRUE(launch.ok() && launch->has_value()) << launch.status();
  EXPECT_EQ((*launch)->by, "srun");
  EXPECT_EQ((*launch)->leader, "gpu03");
  EXPECT_EQ((*launch)->run, "4711");
  EXPECT_FALSE((*launch)->shares_machine);
}

TEST(LaunchTest, TheFirstHostOfAListOfSlurms) {
  for (const auto& [list, host] : Values{{"gpu7", "gpu7"},
                                         {"gpu7,gpu8", "gpu7"},
                                         {"rack[2-3]gpu[10,11]", "rack2gpu10"},
                                         {"gpu[007-009]", "gpu007"},
                                         {"a-1.example,b", "a-1.example"}}) {
    const auto launch = Find({{"SLURM_PROCID", "0"},
                              {"SLURM_STEP_NUM_TASKS", "2"},
                              {"SLURM_STEP_NODELIST", list}});
    ASSERT_TRUE(launch.ok() && launch->has_value()) << launch.status();
    EXPECT_EQ((*launch)->leader, host) << list;
  }
}

TEST(LaunchTest, ABatchScriptOfSlurmIsAlone) {
  EXPECT_EQ(*Find({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}),
            std::nullopt);
}

TEST(LaunchTest, OneProcessNeedsNoOthers) {
  EXPECT_EQ(*Find({}), std::nullopt);
  EXPECT_EQ(*Find({{"RANK", "0"}, {"WORLD_SIZE", "1"}}), std::nullopt);
}

TEST(LaunchTest, OwnVariablesWin) {
  Values values = kTorchrun;
  values["HEARTH_RANK"] = "0";
  values["HEARTH_RANKS"] = "2";
  values["HEARTH_LEADER"] = "graph-0.graph";
  const auto launch = Find(values);
  ASSERT_TRUE(launch.ok() && launch->has_value()) << launch.status();
  EXPECT_EQ((*launch)->leader, "graph-0.graph");
  EXPECT_EQ((*launch)->size, 2u);
  EXPECT_FALSE((*launch)->shares_machine);
}

TEST(LaunchTest, ErrorsNameTheVariable) {
  const struct {
    const char* name;
    const char* value;
  } kCases[] = {{"RANK", "4"},       {"RANK", "first"},
                {"WORLD_SIZE", "0"}, {"WORLD_SIZE", "9999"},
                {"MASTER_ADDR", ""}, {"LOCAL_RANK", "-1"}};
  for (const auto& one : kCases) {
    Values values = kTorchrun;
    values[one.name] = one.value;
    const absl::Status status = Find(values).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << one.name << one.value;
    EXPECT_TRUE(absl::StrContains(status.message(), one.name)) << status;
  }
}

}  // namespace
}  // namespace hearth::launcher
