#include "server/mapping/report_mapping.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "engine/base/manual_clock.h"
#include "engine/feed/channel.h"

namespace hearth::server {
namespace {

strategy::PassReport Pass(int64_t base) {
  strategy::PassReport pass;
  pass.seconds = static_cast<double>(base) + 0.5;
  pass.batches = base + 1;
  pass.rows_needed = base + 2;
  pass.bytes_needed = base + 3;
  pass.bytes_read = base + 4;
  pass.read_ops = base + 5;
  pass.io_wait_seconds = static_cast<double>(base) + 6;
  pass.rows_read = base + 7;
  pass.hits = {{.level = "cpu_cache", .rows = base + 8}};
  pass.list_hits = {{.level = "neighbor_cache", .lists = base + 20}};
  pass.lists_read = base + 21;
  pass.phases = {{.name = "inspect", .seconds = 9.5}};
  pass.stages.push_back({.name = "sample",
                         .threads = 2,
                         .busy_seconds = 1,
                         .starved_seconds = 2,
                         .blocked_seconds = 3});
  return pass;
}

TEST(ReportMappingTest, EveryFigureOfAnEpoch) {
  job::EpochReport epoch;
  epoch.epoch = 3;
  epoch.loss = 0.25;
  epoch.metric = train::Metric::kMicroF1;
  epoch.valid_metric = 0.75;
  epoch.training = Pass(100);
  epoch.validation = Pass(200);
  epoch.exact = job::ExactEpoch{.loss = 0.125,
                                .valid_metric = 0.875,
                                .seconds = 300.5,
                                .rows_needed = 301};
  const v1::EpochReport proto = ToProto(epoch);
  EXPECT_EQ(proto.epoch(), 3u);
  EXPECT_EQ(proto.loss(), 0.25);
  EXPECT_EQ(proto.metric(), "micro_f1");
  EXPECT_EQ(proto.valid_metric(), 0.75);
  EXPECT_EQ(proto.seconds(), 100.5);
  EXPECT_EQ(proto.batches(), 101u);
  EXPECT_EQ(proto.rows_needed(), 102u);
  EXPECT_EQ(proto.bytes_needed(), 103u);
  EXPECT_EQ(proto.bytes_read(), 104u);
  EXPECT_EQ(proto.read_ops(), 105u);
  EXPECT_EQ(proto.io_wait_seconds(), 106);
  EXPECT_EQ(proto.validation().batches(), 201u);
  EXPECT_EQ(proto.validation().bytes_read(), 204u);
  EXPECT_EQ(proto.rows_read(), 107u);
  ASSERT_EQ(proto.hits_size(), 1);
  EXPECT_EQ(proto.hits(0).level(), "cpu_cache");
  EXPECT_EQ(proto.hits(0).rows(), 108u);
  ASSERT_EQ(proto.list_hits_size(), 1);
  EXPECT_EQ(proto.list_hits(0).level(), "neighbor_cache");
  EXPECT_EQ(proto.list_hits(0).lists(), 120u);
  EXPECT_EQ(proto.lists_read(), 121u);
  EXPECT_EQ(proto.without_history().loss(), 0.125);
  EXPECT_EQ(proto.without_history().valid_metric(), 0.875);
  EXPECT_EQ(proto.without_history().seconds(), 300.5);
  EXPECT_EQ(proto.without_history().rows_needed(), 301u);
  ASSERT_EQ(proto.phases_size(), 1);
  EXPECT_EQ(proto.phases(0).name(), "inspect");
  EXPECT_EQ(proto.phases(0).seconds(), 9.5);
  EXPECT_EQ(proto.validation().hits(0).rows(), 208u);
  EXPECT_EQ(proto.validation().lists_read(), 221u);
  ASSERT_EQ(proto.stages_size(), 1);
  EXPECT_EQ(proto.stages(0).name(), "sample");
  EXPECT_EQ(proto.stages(0).threads(), 2u);
  EXPECT_EQ(proto.stages(0).busy_seconds(), 1);
  EXPECT_EQ(proto.stages(0).starved_seconds(), 2);
  EXPECT_EQ(proto.stages(0).blocked_seconds(), 3);
}

TEST(ReportMappingTest, WhatIsUnknownIsAbsent) {
  const v1::EpochReport epoch = ToProto(job::EpochReport());
  EXPECT_FALSE(epoch.has_valid_metric());
  EXPECT_FALSE(epoch.has_bytes_read());
  EXPECT_FALSE(epoch.has_read_ops());
  EXPECT_FALSE(epoch.has_io_wait_seconds());
  EXPECT_FALSE(epoch.has_rows_read());
  EXPECT_FALSE(epoch.has_without_history());
  EXPECT_FALSE(ToProto(job::TrainReport()).has_test_metric());
  EXPECT_FALSE(ToProto(job::Progress()).has_loss());
}

TEST(ReportMappingTest, EveryFieldOfATrainReport) {
  job::TrainReport report;
  report.metric = train::Metric::kMeanSquaredError;
  report.test_metric = 0.5;
  report.test = Pass(10);
  report.peak_memory_bytes = 7;
  report.loss_digest = "ab";
  report.kept_epoch = 2;
  report.model_path = "/m";
  report.resumes = 1;
  report.cuts = {{.option = "cpu-cache",
                  .unit = strategy::BudgetUnit::kBytes,
                  .asked = 9,
                  .chosen = 3}};
  report.memory_limit_bytes = 10;
  const v1::TrainReport proto = ToProto(report);
  EXPECT_EQ(proto.epochs_size(), 0);
  EXPECT_EQ(proto.metric(), "mse");
  EXPECT_EQ(proto.test_metric(), 0.5);
  EXPECT_EQ(proto.test().batches(), 11u);
  EXPECT_EQ(proto.peak_memory_bytes(), 7u);
  EXPECT_EQ(proto.loss_digest(), "ab");
  EXPECT_EQ(proto.kept_epoch(), 2u);
  EXPECT_EQ(proto.model_path(), "/m");
  EXPECT_EQ(proto.resumes(), 1u);
  ASSERT_EQ(proto.cuts_size(), 1);
  EXPECT_EQ(proto.cuts(0).option(), "cpu-cache");
  EXPECT_EQ(proto.cuts(0).asked(), 9u);
  EXPECT_EQ(proto.cuts(0).chosen(), 3u);
  EXPECT_EQ(proto.cuts(0).unit(), "bytes");
  EXPECT_EQ(proto.memory_limit_bytes(), 10u);
}

TEST(ReportMappingTest, EveryFieldOfAnOrderOfLocality) {
  job::TrainReport report;
  EXPECT_FALSE(ToProto(report).has_locality());
  job::LocalityChoice& choice = report.locality.emplace();
  choice.parts = 9;
  choice.macro_batch_parts = 4;
  choice.label_distance = 0.25;
  choice.shuffled_label_distance = 0.125;
  EXPECT_FALSE(ToProto(report).locality().has_valid_metric());
  EXPECT_FALSE(ToProto(report).locality().has_rows_needed());
  choice.valid_metric = 0.5;
  choice.shuffled_valid_metric = 0.75;
  choice.rows_needed = 5;
  choice.shuffled_rows_needed = 6;
  choice.reverted = true;
  const v1::LocalityChoice proto = ToProto(report).locality();
  EXPECT_EQ(proto.parts(), 9u);
  EXPECT_EQ(proto.macro_batch_parts(), 4u);
  EXPECT_EQ(proto.label_distance(), 0.25);
  EXPECT_EQ(proto.shuffled_label_distance(), 0.125);
  EXPECT_EQ(proto.valid_metric(), 0.5);
  EXPECT_EQ(proto.shuffled_valid_metric(), 0.75);
  EXPECT_EQ(proto.rows_needed(), 5u);
  EXPECT_EQ(proto.shuffled_rows_needed(), 6u);
  EXPECT_TRUE(proto.reverted());
  job::ExplainReport explained;
  explained.locality = choice;
  EXPECT_EQ(ToProto(explained).locality().parts(), 9u);
}

TEST(ReportMappingTest, ProgressAndSeverities) {
  const v1::Progress proto = ToProto(job::Progress{.phase = "training",
                                                   .done = 1,
                                                   .total = 2,
                                                   .epoch = 3,
                                                   .epochs = 4,
                                                   .loss = 5});
  EXPECT_EQ(proto.phase(), "training");
  EXPECT_EQ(proto.done(), 1u);
  EXPECT_EQ(proto.total(), 2u);
  EXPECT_EQ(proto.epoch(), 3u);
  EXPECT_EQ(proto.epochs(), 4u);
  EXPECT_EQ(proto.loss(), 5);
  EXPECT_EQ(ToProto(job::Severity::kInfo), v1::LogLine::INFO);
  EXPECT_EQ(ToProto(job::Severity::kWarning), v1::LogLine::WARNING);
  EXPECT_EQ(ToProto(job::Severity::kError), v1::LogLine::ERROR);
}

store::Manifest ExampleManifest() {
  store::Manifest manifest;
  manifest.name = "wordnet";
  manifest.fingerprint = "0123456789abcdef";
  manifest.created_unix_seconds = 1000;
  store::NodeTypeEntry& nodes = manifest.node_types.emplace_back();
  nodes.name = "node";
  nodes.num_nodes = 10;
  nodes.features.path = "/data/node_feat.npy";
  nodes.features.in_place = true;
  nodes.features.dtype = store::DType::kFloat16;
  nodes.features.shape = {10, 4};
  nodes.features.crc_block_bytes = 4096;
  nodes.label_kind = store::LabelKind::kMultiLabel;
  nodes.label_width = 3;
  nodes.train.shape = {6};
  nodes.valid.shape = {2};
  nodes.test.shape = {1};
  store::EdgeTypeEntry& edges = manifest.edge_types.emplace_back();
  edges.name = "edge";
  edges.source_type = "node";
  edges.destination_type = "node";
  edges.num_edges = 30;
  return manifest;
}

TEST(ReportMappingTest, EveryFieldOfADataset) {
  const v1::Dataset proto = ToDataset(ExampleManifest());
  EXPECT_EQ(proto.name(), "wordnet");
  EXPECT_EQ(proto.fingerprint(), "0123456789abcdef");
  EXPECT_EQ(proto.create_time().seconds(), 1000);
  const v1::NodeType& nodes = proto.node_types(0);
  EXPECT_EQ(nodes.name(), "node");
  EXPECT_EQ(nodes.num_nodes(), 10u);
  EXPECT_EQ(nodes.feature_dim(), 4u);
  EXPECT_EQ(nodes.feature_dtype(), "float16");
  EXPECT_EQ(nodes.feature_path(), "/data/node_feat.npy");
  EXPECT_EQ(nodes.label_kind(), v1::MULTI_LABEL);
  EXPECT_EQ(nodes.label_width(), 3u);
  EXPECT_EQ(nodes.num_train(), 6u);
  EXPECT_EQ(nodes.num_valid(), 2u);
  EXPECT_EQ(nodes.num_test(), 1u);
  EXPECT_EQ(proto.edge_types(0).num_edges(), 30u);
  EXPECT_EQ(proto.edge_types(0).source_type(), "node");
}

TEST(ReportMappingTest, PathsInsideTheDataDirectoryStayPrivate) {
  store::Manifest manifest = ExampleManifest();
  manifest.node_types[0].features.in_place = false;
  EXPECT_EQ(ToDataset(manifest).node_types(0).feature_path(), "");
  manifest.node_types[0].features = {};
  EXPECT_EQ(ToDataset(manifest).node_types(0).feature_dim(), 0u);
  EXPECT_EQ(ToDataset(manifest).node_types(0).feature_dtype(), "");
}

TEST(ReportMappingTest, EveryFieldOfAnImportReport) {
  const v1::ImportReport proto = ToImportReport(ExampleManifest(), 77, 1.5);
  EXPECT_EQ(proto.num_nodes(), 10u);
  EXPECT_EQ(proto.num_edges(), 30u);
  EXPECT_EQ(proto.feature_dim(), 4u);
  EXPECT_EQ(proto.label_kind(), v1::MULTI_LABEL);
  EXPECT_EQ(proto.label_width(), 3u);
  EXPECT_EQ(proto.bytes_written(), 77u);
  EXPECT_EQ(proto.seconds(), 1.5);
}

TEST(ReportMappingTest, AFeedHasThePassesOfItsChannel) {
  ManualClock clock;
  const auto shared = std::make_shared<feed::Channel>(clock);
  feed::Channel& channel = *shared;
  channel.AddPass(feed::Split::kTrain, Pass(100));
  channel.AddPass(feed::Split::kTrain, Pass(100));
  channel.AddPass(feed::Split::kTest, Pass(300));
  clock.Advance(4);
  channel.AddSeconds({.wait = 1.5, .script = 2.5, .copies = 3});
  job::TrainReport report;
  report.peak_memory_bytes = 4;
  report.memory_bound_bytes = 5;
  report.peers.jobs = {"train-7"};
  report.peers.bytes_alone = 6;
  report.peers.bytes_charged = 2;
  const v1::FeedReport proto = ToFeedReport(report, {shared});
  EXPECT_EQ(proto.train().passes(), 2u);
  EXPECT_EQ(proto.train().sum().batches(), 202u);
  EXPECT_EQ(proto.train().sum().bytes_read(), 208u);
  EXPECT_EQ(proto.valid().passes(), 0u);
  EXPECT_EQ(proto.test().passes(), 1u);
  EXPECT_EQ(proto.test().sum().rows_needed(), 302u);
  EXPECT_EQ(proto.wait_seconds(), 1.5);
  EXPECT_EQ(proto.script_seconds(), 2.5);
  EXPECT_EQ(proto.copied_batches(), 3u);
  EXPECT_EQ(proto.peak_memory_bytes(), 4u);
  EXPECT_EQ(proto.memory_bound_bytes(), 5u);
  ASSERT_EQ(proto.company().jobs_size(), 1);
  EXPECT_EQ(proto.company().jobs(0), "train-7");
}

}  // namespace
}  // namespace hearth::server
