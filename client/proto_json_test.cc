#include "client/proto_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "hearth/v1/datasets.pb.h"

namespace hearth::client {
namespace {

using nlohmann::ordered_json;

TEST(ToJson, KeepsSixtyFourBitIntegersAsNumbers) {
  v1::DataSpec data;
  data.set_data_seed(std::numeric_limits<uint64_t>::max());
  EXPECT_THAT(ToJson(data).dump(),
              ::testing::HasSubstr("\"data_seed\":18446744073709551615"));
}

TEST(ToJson, WritesFieldsThatAreZeroOrEmpty) {
  const ordered_json json = ToJson(v1::NodeType());
  EXPECT_EQ(json["num_nodes"], 0);
  EXPECT_EQ(json["name"], "");
  EXPECT_EQ(json.size(), 12);
}

TEST(ToJson, UnsetOptionalsAndMessagesAreNull) {
  v1::EpochReport epoch;
  epoch.set_read_ops(0);
  const ordered_json json = ToJson(epoch);
  EXPECT_TRUE(json["bytes_read"].is_null());
  EXPECT_EQ(json["read_ops"], 0);
  EXPECT_TRUE(json["validation"].is_null());
  EXPECT_EQ(json["stages"], ordered_json::array());
}

TEST(ToJson, DoublesReadBackEqual) {
  for (const double loss : {0.1, 1.0 / 3, 2.0, 1e-300, 4.35}) {
    v1::EpochReport epoch;
    epoch.set_loss(loss);
    const std::string text = ToJson(epoch).dump();
    EXPECT_EQ(ordered_json::parse(text)["loss"].get<double>(), loss) << text;
  }
  v1::EpochReport epoch;
  epoch.set_loss(0.1);
  EXPECT_THAT(ToJson(epoch).dump(), ::testing::HasSubstr("\"loss\":0.1,"));
}

TEST(ToJson, TimesAreRfc3339WithTheDigitsThereAre) {
  v1::Dataset dataset;
  dataset.mutable_create_time()->set_seconds(1700000000);
  EXPECT_EQ(ToJson(dataset)["create_time"], "2023-11-14T22:13:20Z");
  dataset.mutable_create_time()->set_nanos(250000000);
  EXPECT_EQ(ToJson(dataset)["create_time"], "2023-11-14T22:13:20.25Z");
}

TEST(ToJson, OneofsShowTheMemberThatIsSet) {
  v1::DataSpec data;
  data.mutable_memory();
  data.mutable_neighbor()->add_fanouts(10);
  data.mutable_neighbor()->add_fanouts(-1);
  const ordered_json json = ToJson(data);
  EXPECT_EQ(json["memory"], ordered_json::object());
  EXPECT_TRUE(json["mmap"].is_null());
  EXPECT_EQ(json["neighbor"]["fanouts"], ordered_json({10, -1}));
}

TEST(JobToJson, ReportIsThatOfTheKind) {
  v1::Job job;
  job.set_id("train-1");
  job.set_state(v1::SUCCEEDED);
  v1::TrainReport& report = *job.mutable_report()->mutable_train();
  report.set_loss_digest("ab12");
  report.add_epochs()->set_batches(7);
  const ordered_json json = JobToJson(job);
  EXPECT_EQ(json["state"], "SUCCEEDED");
  EXPECT_EQ(json["report"]["loss_digest"], "ab12");
  EXPECT_EQ(json["report"]["epochs"][0]["batches"], 7);
  EXPECT_TRUE(json["report"]["test_metric"].is_null());
  EXPECT_TRUE(json["error"].is_null());
}

TEST(JobToJson, OrderIsThatOfTheFieldNumbers) {
  const ordered_json json = JobToJson(v1::Job());
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  EXPECT_THAT(keys, ::testing::ElementsAre(
                        "id", "state", "spec", "report", "error", "create_time",
                        "start_time", "end_time", "last_sequence", "priority",
                        "waiting_reason", "sweep", "trial", "replica", "held",
                        "machines", "owner", "trace_id"));
}

TEST(JobToJson, NoReportIsNull) {
  v1::Job job;
  EXPECT_TRUE(JobToJson(job)["report"].is_null());
  job.mutable_report();
  EXPECT_TRUE(JobToJson(job)["report"].is_null());
}

TEST(ToJson, StatesUnknownToThisClientAreNumbers) {
  v1::Job job;
  job.set_state(static_cast<v1::JobState>(99));
  EXPECT_EQ(ToJson(job)["state"], 99);
}

}  // namespace
}  // namespace hearth::client
