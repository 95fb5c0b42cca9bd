#include "server/mapping/request_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "hearth/v1/spec.pb.h"

namespace hearth::server {
namespace {

using ::testing::HasSubstr;

v1::JobSpec Job() {
  v1::JobSpec spec;
  v1::TrainJobSpec& train = *spec.mutable_train();
  train.mutable_data()->set_dataset("arxiv");
  train.mutable_data()->set_epochs(5);
  train.mutable_data()->mutable_neighbor()->add_fanouts(10);
  train.mutable_data()->mutable_diskgnn();
  train.mutable_data()->mutable_budgets()->set_cpu_cache_bytes(1 << 30);
  train.add_trains()->mutable_sage()->set_hidden(256);
  train.mutable_trains(0)->set_train_threads(2);
  return spec;
}

using Change = std::function<void(v1::TrainJobSpec&)>;

TEST(ResumeChecksTest, BudgetsAndWidthsMayChange) {
  const std::vector<Change> changes = {
      [](v1::TrainJobSpec&) {},
      [](v1::TrainJobSpec& train) { train.mutable_data()->clear_budgets(); },
      [](v1::TrainJobSpec& train) {
        train.mutable_data()->mutable_budgets()->set_cpu_cache_bytes(0);
        train.mutable_data()->mutable_budgets()->set_gpu_cache_bytes(1);
        train.mutable_data()->mutable_budgets()->set_staging_bytes(1);
      },
      [](v1::TrainJobSpec& train) {
        train.mutable_data()->mutable_diskgnn()->set_disk_limit_ratio(2);
        train.mutable_data()->mutable_diskgnn()->set_disk_cache_bytes(1);
        train.mutable_data()->mutable_diskgnn()->set_prepare_memory_bytes(1);
      },
      [](v1::TrainJobSpec& train) {
        train.mutable_pipeline()->set_samplers(4);
        train.mutable_pipeline()->set_extractors(4);
        train.mutable_pipeline()->set_io_depth(4);
        train.mutable_trains(0)->set_train_threads(4);
        train.set_checkpoint_every(7);
      },
      // A job may go on with another number of machines.
      [](v1::TrainJobSpec& train) {
        train.set_machines(3);
        train.set_members("host-b,host-c");
        train.set_min_machines(2);
      }};
  for (const Change& change : changes) {
    v1::JobSpec next = Job();
    change(*next.mutable_train());
    EXPECT_TRUE(CheckChangesNoResult(Job(), next).ok())
        << CheckChangesNoResult(Job(), next);
    EXPECT_TRUE(CheckChangesNoResult(next, Job()).ok());
  }
}

TEST(ResumeChecksTest, WhatChangesResultsIsRefusedByName) {
  const std::vector<std::pair<std::string, Change>> changes = {
      {"train.data.epochs",
       [](v1::TrainJobSpec& train) { train.mutable_data()->set_epochs(6); }},
      {"train.data.data_seed",
       [](v1::TrainJobSpec& train) { train.mutable_data()->set_data_seed(6); }},
      {"train.data.neighbor.fanouts[0]",
       [](v1::TrainJobSpec& train) {
         train.mutable_data()->mutable_neighbor()->set_fanouts(0, 5);
       }},
      {"train.data.mmap",
       [](v1::TrainJobSpec& train) { train.mutable_data()->mutable_mmap(); }},
      {"train.trains[0].sage.hidden",
       [](v1::TrainJobSpec& train) {
         train.mutable_trains(0)->mutable_sage()->set_hidden(64);
       }},
      {"train.trains[1]", [](v1::TrainJobSpec& train) { train.add_trains(); }}};
  for (const auto& [field, change] : changes) {
    v1::JobSpec next = Job();
    change(*next.mutable_train());
    const absl::Status status = CheckChangesNoResult(Job(), next);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << field;
    EXPECT_THAT(std::string(status.message()), HasSubstr(field + ": "));
  }
}

TEST(ResumeChecksTest, AnotherKindIsRefused) {
  v1::JobSpec import;
  import.mutable_import()->set_name("arxiv");
  EXPECT_EQ(CheckChangesNoResult(Job(), import).code(),
            absl::StatusCode::kInvalidArgument);
  v1::JobSpec with_more = import;
  with_more.mutable_import()->set_memory_limit_bytes(1 << 30);
  EXPECT_TRUE(CheckChangesNoResult(import, with_more).ok());
  with_more.mutable_import()->set_path("/elsewhere");
  EXPECT_THAT(std::string(CheckChangesNoResult(import, with_more).message()),
              HasSubstr("import.path"));
}

}  // namespace
}  // namespace hearth::server
