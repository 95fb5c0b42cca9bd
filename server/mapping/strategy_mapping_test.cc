#include "server/mapping/strategy_mapping.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "engine/store/manifest.h"
#include "engine/strategy/kinds.h"

namespace hearth::server {
namespace {

v1::DataSpec Parse(const std::string& text) {
  v1::DataSpec data;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &data))
      << text;
  return data;
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
  EXPECT_EQ(ginex.neighbor_rank, strategy::NeighborRank::kRatio);
  EXPECT_EQ(ginex.cpu_cache_bytes, 5u);
  EXPECT_EQ(ginex.io_depth, 32);
  const auto cross = std::get<strategy::GinexOptions>(ToStrategyOptions(
      Parse("ginex { neighbor_rank_cross: true }"), pipeline));
  EXPECT_EQ(cross.neighbor_rank, strategy::NeighborRank::kCross);
}

TEST(ToStrategyOptionsTest, EveryOptionOfGidsReachesTheEngine) {
  v1::PipelineSpec pipeline;
  pipeline.set_io_depth(32);
  const auto gids = std::get<strategy::GidsOptions>(ToStrategyOptions(
      Parse("gids { hot: 'out-degree' window_cache_bytes: 3 window: 0 "
            "merge_max: 5 striped: true } budgets { cpu_cache_bytes: 0 "
            "staging_bytes: 2 }"),
      pipeline));
  EXPECT_EQ(gids, (strategy::GidsOptions{.cpu_cache_bytes = 0,
                                         .hot = strategy::HotNodes::kOutDegree,
                                         .window_cache_bytes = 3,
                                         .window = 0,
                                         .merge_max = 5,
                                         .staging_bytes = 2,
                                         .io_depth = 32,
                                         .striped = true}));
  const auto automatic = std::get<strategy::GidsOptions>(
      ToStrategyOptions(Parse("gids { hot: '/data/hot.npy' }"), {}));
  EXPECT_FALSE(automatic.cpu_cache_bytes.has_value());
  EXPECT_FALSE(automatic.window_cache_bytes.has_value());
  EXPECT_EQ(automatic.gpu_cache_bytes, 0u);
  EXPECT_EQ(automatic.io_depth, 0);
  EXPECT_EQ(automatic.hot, strategy::HotNodes::kFile);
  EXPECT_EQ(automatic.hot_file, "/data/hot.npy");
  const auto on_gpu = std::get<strategy::GidsOptions>(
      ToStrategyOptions(Parse("gids {} budgets { gpu_cache_bytes: 7 }"), {}));
  EXPECT_EQ(on_gpu.gpu_cache_bytes, 7u);
}

TEST(IsHotNodesTest, TakesNamesAndAbsolutePaths) {
  for (const char* hot : {"reverse-pagerank", "out-degree", "frequency",
                          "random", "/data/hot.npy"}) {
    EXPECT_TRUE(IsHotNodes(hot)) << hot;
  }
  for (const char* hot : {"", "file", "hot.npy", "pagerank"}) {
    EXPECT_FALSE(IsHotNodes(hot)) << hot;
  }
}

TEST(ToStrategyOptionsTest, EveryOptionOfOutreReachesTheEngine) {
  v1::PipelineSpec pipeline;
  pipeline.set_io_depth(32);
  const auto outre = std::get<strategy::OutreOptions>(
      ToStrategyOptions(Parse("outre { superbatch: 3 neighbor_cache_bytes: 4 } "
                              "budgets { cpu_cache_bytes: 5 }"),
                        pipeline));
  EXPECT_EQ(outre.superbatch, 3);
  EXPECT_EQ(outre.neighbor_cache_bytes, 4u);
  EXPECT_EQ(outre.cpu_cache_bytes, 5u);
  EXPECT_EQ(outre.io_depth, 32);
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
  EXPECT_EQ(diskgnn.prepare_memory_bytes, strategy::kAutoBytes);
}

TEST(ToStrategyOptionsTest, AnAutoCacheReachesTheEngine) {
  for (const char* strategy : {"gnndrive", "ginex", "diskgnn", "outre"}) {
    const strategy::StrategyOptions options = ToStrategyOptions(
        Parse(
            absl::StrCat(strategy, " {} budgets { cpu_cache_rule: \"auto\" }")),
        {});
    const store::Manifest empty;
    EXPECT_NE(strategy::WithAutoBudgets(options, empty, 0), options)
        << strategy;
  }
  const auto gids = std::get<strategy::GidsOptions>(ToStrategyOptions(
      Parse("gids {} budgets { cpu_cache_rule: \"auto\" }"), {}));
  EXPECT_FALSE(gids.cpu_cache_bytes.has_value());
}

}  // namespace
}  // namespace hearth::server
