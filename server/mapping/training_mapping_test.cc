#include "server/mapping/training_mapping.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/store/manifest.h"
#include "engine/strategy/kinds.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/mapping/spec_mapping.h"

namespace hearth::server {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(FanoutsOfTest, NamesEdgeTypesAndTheirFanouts) {
  EXPECT_THAT(*ParseFanoutsOf(""), IsEmpty());
  const auto parsed = ParseFanoutsOf("paper:cites:paper=15,10;writes=0,-1");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_THAT(*parsed,
              ElementsAre(job::EdgeTypeFanouts{"paper:cites:paper", {15, 10}},
                          job::EdgeTypeFanouts{"writes", {0, -1}}));
}

TEST(FanoutsOfTest, SaysWhatIsWrong) {
  for (const auto& [text, what] :
       std::vector<std::pair<std::string, std::string>>{
           {"cites", "not \"cites\""},
           {"cites=", "not \"cites=\""},
           {"=5", "not \"=5\""},
           {"cites=5;", "not \"\""},
           {"cites=5,x", "\"x\" of cites"},
           {"cites=-2", "\"-2\" of cites"},
           {"cites=1048577", "\"1048577\" of cites"},
           {"cites=5,,5", "\"\" of cites"},
           {"cites=5;cites=6", "names cites twice"}}) {
    const absl::Status status = ParseFanoutsOf(text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
  }
}

TEST(ModelMappingTest, EveryModelOfTheContractHasOptionsOfItsName) {
  const auto* models = v1::TrainSpec::descriptor()->FindOneofByName("model");
  ASSERT_EQ(models->field_count(), std::variant_size_v<train::ModelOptions>);
  for (int i = 0; i < models->field_count(); ++i) {
    v1::TrainSpec train;
    google::protobuf::Message* message =
        train.GetReflection()->MutableMessage(&train, models->field(i));
    const auto* hidden = message->GetDescriptor()->FindFieldByName("hidden");
    const auto* heads = message->GetDescriptor()->FindFieldByName("heads");
    if (hidden != nullptr) {
      message->GetReflection()->SetUInt32(message, hidden, 24);
    }
    const auto* bases = message->GetDescriptor()->FindFieldByName("bases");
    if (heads != nullptr) {
      message->GetReflection()->SetUInt32(message, heads, 3);
    }
    if (bases != nullptr) {
      message->GetReflection()->SetUInt32(message, bases, 5);
    }

    std::visit(
        [&](const auto& model) {
          EXPECT_EQ(model.kName, models->field(i)->name());
          if constexpr (requires { model.hidden; }) {
            EXPECT_EQ(model.hidden, 24);
          }
          if constexpr (requires { model.heads; }) {
            EXPECT_EQ(model.heads, 3);
          }
          if constexpr (requires { model.bases; }) {
            EXPECT_EQ(model.bases, 5);
          }
          EXPECT_EQ(
              requires { model.bases; }, bases != nullptr);
          EXPECT_EQ(
              requires { model.hidden; }, hidden != nullptr);
          EXPECT_EQ(
              requires { model.heads; }, heads != nullptr);
        },
        ToModelOptions(train));
  }
}

TEST(ModelMappingTest, NamesTheModelWhoseHeadsDoNotDivideItsWidth) {
  v1::TrainSpec train;
  train.mutable_gatv2()->set_hidden(10);
  train.mutable_gatv2()->set_heads(4);
  FieldViolations violations;
  CheckModel("train.trains[0]", train, violations);
  EXPECT_EQ(violations.ToStatus().message(),
            "train.trains[0].gatv2.hidden: must be a multiple of heads (4), "
            "not 10");
}

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

TEST(ToStrategyOptionsTest, EveryOptionOfMariusReachesTheEngine) {
  EXPECT_EQ(
      std::get<strategy::MariusOptions>(ToStrategyOptions(
          Parse("marius { partitions: 3 partition_buffer_bytes: 4 }"), {})),
      (strategy::MariusOptions{.partitions = 3, .partition_buffer_bytes = 4}));
  EXPECT_EQ(std::get<strategy::MariusOptions>(
                ToStrategyOptions(Parse("marius {}"), {})),
            strategy::MariusOptions{});
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

TEST(ToStrategyOptionsTest, EveryOptionOfForesightReachesTheEngine) {
  v1::PipelineSpec pipeline;
  pipeline.set_io_depth(32);
  EXPECT_EQ(std::get<strategy::ForesightOptions>(ToStrategyOptions(
                Parse("foresight { disk_limit_bytes: 7 first_epochs: 2.5 } "
                      "budgets { cpu_cache_bytes: 5 }"),
                pipeline)),
            (strategy::ForesightOptions{.cpu_cache_bytes = 5,
                                        .disk_limit_bytes = 7,
                                        .first_epochs = 2.5,
                                        .io_depth = 32}));
  EXPECT_EQ(std::get<strategy::ForesightOptions>(
                ToStrategyOptions(Parse("foresight { disk_limit_ratio: 3 "
                                        "first_epochs: 0.5 }"),
                                  pipeline))
                .disk_limit_ratio,
            3);
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
