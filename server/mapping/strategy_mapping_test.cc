#include "server/mapping/strategy_mapping.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>

namespace hearth::server {
namespace {

using ::testing::HasSubstr;

v1::DataSpec Parse(const std::string& text) {
  v1::DataSpec data;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &data))
      << text;
  return data;
}

v1::DataSpec Checked(const std::string& text) {
  v1::DataSpec data = Parse(text);
  FieldViolations violations;
  CheckStrategy(/*has_gpu=*/false, data, violations);
  EXPECT_TRUE(violations.ToStatus().ok()) << violations.ToStatus();
  return data;
}

std::string Complaint(const std::string& text) {
  v1::DataSpec data = Parse(text);
  FieldViolations violations;
  CheckStrategy(/*has_gpu=*/false, data, violations);
  EXPECT_EQ(violations.ToStatus().code(), absl::StatusCode::kInvalidArgument);
  return std::string(violations.ToStatus().message());
}

TEST(CheckStrategyTest, FillsInTheDefaultsOfGnndrive) {
  const v1::DataSpec data = Checked("gnndrive {}");
  EXPECT_EQ(data.budgets().cpu_cache_bytes(), uint64_t{1} << 30);
  EXPECT_EQ(data.budgets().staging_bytes(), 0u);
  EXPECT_EQ(data.gnndrive().sample_queue(), 6u);
  EXPECT_EQ(data.gnndrive().train_queue(), 4u);
}

TEST(CheckStrategyTest, NoCacheIsABudgetToo) {
  const v1::DataSpec data = Checked("ginex {} budgets { cpu_cache_bytes: 0 }");
  EXPECT_EQ(data.budgets().cpu_cache_bytes(), 0u);
}

TEST(CheckStrategyTest, StrategiesWithoutBudgetsRefuseThem) {
  EXPECT_THAT(Complaint("memory {} budgets { cpu_cache_bytes: 1 }"),
              HasSubstr("train.data.budgets: must be absent"));
  EXPECT_THAT(Complaint("mmap {} budgets {}"),
              HasSubstr("train.data.budgets: must be absent"));
  EXPECT_THAT(Complaint("ginex {} budgets { staging_bytes: 1 }"),
              HasSubstr("train.data.budgets.staging_bytes: must be 0"));
}

TEST(CheckStrategyTest, BoundsAreNamed) {
  EXPECT_THAT(Complaint("gnndrive { sample_queue: 1025 }"),
              HasSubstr("train.data.gnndrive.sample_queue: must be at most"));
  EXPECT_THAT(Complaint("gnndrive { train_queue: 1025 }"),
              HasSubstr("train.data.gnndrive.train_queue: must be at most"));
  EXPECT_THAT(Complaint("ginex { superbatch: 1048577 }"),
              HasSubstr("train.data.ginex.superbatch: must be at most"));
  EXPECT_THAT(Complaint("ginex { neighbor_cache_bytes: 1125899906842625 }"),
              HasSubstr("neighbor_cache_bytes: must be at most"));
  EXPECT_THAT(
      Complaint("ginex {} budgets { cpu_cache_bytes: 1125899906842625 }"),
      HasSubstr("cpu_cache_bytes: must be at most"));
}

TEST(CheckStrategyTest, OneMustBeChosen) {
  EXPECT_THAT(Complaint("dataset: 'a'"),
              HasSubstr("train.data.strategy: must be one of memory"));
}

TEST(ToStrategyOptionsTest, EveryOptionReachesTheEngine) {
  v1::PipelineSpec pipeline;
  pipeline.set_io_depth(32);
  const auto mmap = std::get<strategy::MmapOptions>(
      ToStrategyOptions(Parse("mmap { read_ahead: true }"), pipeline));
  EXPECT_TRUE(mmap.read_ahead);
  const auto gnndrive = std::get<strategy::GnndriveOptions>(ToStrategyOptions(
      Parse("gnndrive { reorder: true buffered_reads: true sample_queue: 8 "
            "train_queue: 9 } budgets { cpu_cache_bytes: 1 staging_bytes: 2 }"),
      pipeline));
  EXPECT_EQ(gnndrive.cpu_cache_bytes, 1u);
  EXPECT_EQ(gnndrive.staging_bytes, 2u);
  EXPECT_TRUE(gnndrive.reorder);
  EXPECT_TRUE(gnndrive.buffered_reads);
  EXPECT_EQ(gnndrive.sample_queue, 8);
  EXPECT_EQ(gnndrive.train_queue, 9);
  EXPECT_EQ(gnndrive.io_depth, 32);
  const auto ginex = std::get<strategy::GinexOptions>(
      ToStrategyOptions(Parse("ginex { superbatch: 3 neighbor_cache_bytes: 4 } "
                              "budgets { cpu_cache_bytes: 5 }"),
                        pipeline));
  EXPECT_EQ(ginex.superbatch, 3);
  EXPECT_EQ(ginex.neighbor_cache_bytes, 4u);
  EXPECT_EQ(ginex.cpu_cache_bytes, 5u);
  EXPECT_EQ(ginex.io_depth, 32);
}

TEST(CheckStrategyTest, FillsInTheDefaultsOfDiskgnn) {
  const v1::DataSpec data = Checked("diskgnn {}");
  EXPECT_EQ(data.budgets().cpu_cache_bytes(), uint64_t{1} << 30);
  EXPECT_EQ(data.diskgnn().prepare_memory_bytes(), uint64_t{1} << 30);
  EXPECT_FALSE(data.diskgnn().has_disk_cache_bytes());
}

TEST(CheckStrategyTest, WhatDiskgnnCannotDoIsNamed) {
  for (const auto& [text, complaint] :
       {std::pair{"diskgnn { disk_limit_ratio: 0 }", "disk_limit_ratio: must"},
        {"diskgnn { disk_limit_ratio: nan }", "disk_limit_ratio: must"},
        {"diskgnn { prepare_memory_bytes: 4096 }",
         "prepare_memory_bytes: must be at least"},
        {"diskgnn {} budgets { staging_bytes: 1 }", "staging_bytes: must be 0"},
        {"diskgnn {} budgets { gpu_cache_bytes: 1 }",
         "gpu_cache_bytes: must be 0"}}) {
    EXPECT_THAT(Complaint(text), HasSubstr(complaint));
  }
}

TEST(ToStrategyOptionsTest, EveryOptionOfDiskgnnReachesTheEngine) {
  v1::PipelineSpec pipeline;
  pipeline.set_io_depth(32);
  auto diskgnn = std::get<strategy::DiskgnnOptions>(ToStrategyOptions(
      Parse("diskgnn { disk_cache_bytes: 0 disk_limit_bytes: 7 "
            "prepare_memory_bytes: 8 } budgets { cpu_cache_bytes: 5 }"),
      pipeline));
  EXPECT_EQ(diskgnn.cpu_cache_bytes, 5u);
  EXPECT_EQ(diskgnn.disk_cache_bytes, 0u);
  EXPECT_EQ(diskgnn.disk_limit_bytes, 7u);
  EXPECT_EQ(diskgnn.disk_limit_ratio, 0);
  EXPECT_EQ(diskgnn.prepare_memory_bytes, 8u);
  EXPECT_EQ(diskgnn.io_depth, 32);
  diskgnn = std::get<strategy::DiskgnnOptions>(
      ToStrategyOptions(Parse("diskgnn { disk_limit_ratio: 2.5 }"), pipeline));
  EXPECT_FALSE(diskgnn.disk_cache_bytes.has_value());
  EXPECT_EQ(diskgnn.disk_limit_ratio, 2.5);
}

TEST(DefaultExtractorsTest, KeepTheDiskBusy) {
  v1::DataSpec data;
  data.mutable_mmap();
  EXPECT_EQ(DefaultExtractors(data), 1u);
  data.mutable_gnndrive();
  EXPECT_EQ(DefaultExtractors(data), 2u);
}

}  // namespace
}  // namespace hearth::server
