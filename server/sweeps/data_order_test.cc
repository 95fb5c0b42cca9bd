#include "server/sweeps/data_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hearth::server {
namespace {

using ::testing::ElementsAre;

v1::TrainJobSpec Data(uint32_t batch_size,
                      const std::vector<int32_t>& fanouts = {5}) {
  v1::TrainJobSpec spec;
  v1::DataSpec& data = *spec.mutable_data();
  data.set_dataset("cora");
  data.mutable_diskgnn();
  data.set_batch_size(batch_size);
  data.set_epochs(3);
  data.set_distinct_epochs(3);
  data.mutable_neighbor()->mutable_fanouts()->Assign(fanouts.begin(),
                                                     fanouts.end());
  spec.add_trains()->mutable_sage();
  return spec;
}

v1::Job Trained(const v1::TrainJobSpec& spec, const std::string& plan = "") {
  v1::Job job;
  *job.mutable_spec()->mutable_train() = spec;
  if (!plan.empty()) {
    job.mutable_report()->mutable_train()->add_preparations()->set_plan(plan);
  }
  return job;
}

bool AllPlans(const std::string& /*plan*/) { return true; }
bool NoPlan(const std::string& /*plan*/) { return false; }

TEST(OrderOfDataTest, NothingIsKnown) {
  EXPECT_THAT(OrderOfData({}, {}, AllPlans), ElementsAre());
  // From the first one on, always the nearest.
  EXPECT_THAT(
      OrderOfData({Data(64), Data(1024), Data(80), Data(512)}, {}, AllPlans),
      ElementsAre(0, 2, 3, 1));
  EXPECT_THAT(OrderOfData({Data(64, {5, 5}), Data(64, {5}), Data(64, {-1, 5}),
                           Data(64, {10, 5})},
                          {}, AllPlans),
              ElementsAre(0, 3, 2, 1));
}

TEST(OrderOfDataTest, PlansComeFirstThenWhatWasTrainedOnLately) {
  const std::vector<v1::TrainJobSpec> data = {Data(1), Data(2), Data(3),
                                              Data(4)};
  const std::vector<v1::Job> jobs = {
      Trained(data[3]), Trained(data[1], "diskgnn-a"), Trained(data[3]),
      Trained(data[2], "diskgnn-b")};
  EXPECT_THAT(OrderOfData(data, jobs, AllPlans), ElementsAre(1, 2, 3, 0));
  EXPECT_THAT(
      OrderOfData(data, jobs,
                  [](const std::string& plan) { return plan == "diskgnn-b"; }),
      ElementsAre(2, 1, 3, 0));
  EXPECT_THAT(OrderOfData(data, jobs, NoPlan), ElementsAre(1, 2, 3, 0));
}

TEST(OrderOfDataTest, WhatWasTrainedOnLongAgoIsCold) {
  std::vector<v1::Job> jobs;
  for (uint32_t i = 0; i < 8; ++i) jobs.push_back(Trained(Data(100 + i)));
  jobs.push_back(Trained(Data(2)));
  jobs.push_back(Trained(Data(3), "diskgnn-a"));
  const std::vector<v1::TrainJobSpec> data = {Data(1), Data(2), Data(3),
                                              Data(107)};
  EXPECT_THAT(OrderOfData(data, jobs, AllPlans), ElementsAre(2, 3, 1, 0));
}

TEST(OrderOfDataTest, PreparationsCount) {
  const std::vector<v1::TrainJobSpec> data = {Data(1), Data(2)};
  v1::Job job;
  v1::PrepareSpec& prepare = *job.mutable_spec()->mutable_prepare();
  *prepare.mutable_data() = data[1].data();
  job.mutable_report()->mutable_prepare()->mutable_preparation()->set_plan("p");
  EXPECT_THAT(OrderOfData(data, {job}, AllPlans), ElementsAre(1, 0));
  prepare.set_training_only(true);
  EXPECT_THAT(OrderOfData(data, {job}, AllPlans), ElementsAre(0, 1));
}

}  // namespace
}  // namespace hearth::server
