#include "client/cli/resume_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/cli/option_values.h"
#include "hearth/v1/spec.pb.h"

namespace hearth::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

OptionValues Typed(const std::string& name, const std::string& text) {
  return {{name, {text, "--" + name}}};
}

v1::JobSpec Job() {
  v1::JobSpec spec;
  v1::DataSpec& data = *spec.mutable_train()->mutable_data();
  data.set_epochs(5);
  data.mutable_gnndrive();
  data.mutable_budgets()->set_staging_bytes(4096);
  spec.mutable_train()->add_trains()->mutable_sage();
  return spec;
}

// An option that changes results must not appear here.
TEST(ResumeOptionsTest, AreThoseThatChangeNoResult) {
  std::vector<std::string> names;
  for (const Flag& flag : ResumeFlags()) names.push_back(flag.name);
  EXPECT_THAT(names,
              UnorderedElementsAre(
                  "cpu-cache", "strict-budgets", "staging", "gpu-cache",
                  "sample-queue", "train-queue", "superbatch", "neighbor-cache",
                  "neighbor-rank", "disk-cache", "disk-limit", "prepare-memory",
                  "samplers", "sample-on", "extractors", "io-depth",
                  "train-threads", "checkpoint-every", "memory-limit", "hot",
                  "window-cache", "window", "merge-max", "striped"));
}

TEST(ResumeOptionsTest, ChangeWhatIsGivenAlone) {
  v1::JobSpec spec = Job();
  OptionValues values = Typed("cpu-cache", "64MiB");
  values.merge(Typed("staging", "auto"));
  values.merge(Typed("checkpoint-every", "10"));
  ASSERT_TRUE(ChangeOptions(values, spec).ok());
  v1::JobSpec expected = Job();
  v1::DataSpec& data = *expected.mutable_train()->mutable_data();
  data.mutable_budgets()->set_cpu_cache_bytes(64 << 20);
  data.mutable_budgets()->clear_staging_bytes();
  expected.mutable_train()->set_checkpoint_every(10);
  EXPECT_EQ(spec.DebugString(), expected.DebugString());
}

TEST(ResumeOptionsTest, OtherKindsHaveTheirs) {
  v1::JobSpec import;
  import.mutable_import()->set_name("arxiv");
  ASSERT_TRUE(ChangeOptions(Typed("memory-limit", "2GiB"), import).ok());
  EXPECT_EQ(import.import().memory_limit_bytes(), uint64_t{2} << 30);
  v1::JobSpec prepare;
  prepare.mutable_prepare()->mutable_data()->mutable_diskgnn();
  ASSERT_TRUE(ChangeOptions(Typed("disk-limit", "3x"), prepare).ok());
  EXPECT_EQ(prepare.prepare().data().diskgnn().disk_limit_ratio(), 3);
}

TEST(ResumeOptionsTest, WhatDoesNotApplyIsRefused) {
  v1::JobSpec spec = Job();
  absl::Status status = ChangeOptions(Typed("memory-limit", "2GiB"), spec);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("train"));
  status = ChangeOptions(Typed("superbatch", "4"), spec);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("strategies that have it: ginex, outre"));
  status = ChangeOptions(Typed("cpu-cache", "much"), spec);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--cpu-cache"));
  EXPECT_EQ(spec.DebugString(), Job().DebugString());
}

}  // namespace
}  // namespace hearth::cli
