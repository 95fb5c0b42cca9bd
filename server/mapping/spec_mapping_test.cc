#include "server/mapping/spec_mapping.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "engine/feed/channel.h"
#include "engine/job/interface/train_job_options.h"
#include "engine/store/array_type.h"
#include "engine/train/metric.h"
#include "engine/train/model_options.h"
#include "server/mapping/request_checks.h"
#include "server/mapping/spec_fixture.h"

namespace hearth::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::JobSpec Fill(const std::string& text) {
  v1::JobSpec spec = Parse(text);
  const absl::Status status = FillAndValidate(kLimits, spec);
  EXPECT_TRUE(status.ok()) << status;
  return spec;
}

absl::Status WhyNotOn(const std::string& device, const SpecLimits& limits) {
  v1::JobSpec spec =
      Parse(Train("", absl::StrCat("sage {} device: '", device, "'")));
  return FillAndValidate(limits, spec);
}

TEST(SpecMappingTest, TrainsOnTheGpusThatThereAre) {
  const SpecLimits two = {
      .processors = 8, .gpus = 2, .trains_on_gpus = absl::OkStatus()};
  for (const char* device : {"", "cpu", "cuda", "cuda:0", "cuda:1"}) {
    const absl::Status status = WhyNotOn(device, two);
    EXPECT_TRUE(status.ok()) << device << ": " << status;
  }
  const absl::Status third = WhyNotOn("cuda:2", two);
  EXPECT_TRUE(absl::IsFailedPrecondition(third)) << third;
  EXPECT_THAT(std::string(third.message()),
              AllOf(HasSubstr("train.trains[0].device"),
                    HasSubstr("cuda:0 to cuda:1")));
  const absl::Status none = WhyNotOn(
      "cuda", {.processors = 8,
               .trains_on_gpus = absl::FailedPreconditionError("no driver")});
  EXPECT_TRUE(absl::IsFailedPrecondition(none)) << none;
  EXPECT_THAT(
      std::string(none.message()),
      AllOf(HasSubstr("train.trains[0].device"), HasSubstr("no driver")));
  EXPECT_TRUE(none.GetPayload(kBadRequestTypeUrl).has_value());
}

TEST(SpecMappingTest, FillsInTheDefaultsOfTheContract) {
  const v1::JobSpec expected = Parse(R"pb(
    train {
      data {
        dataset: 'wordnet'
        neighbor { fanouts: [ 10, 10, 10 ] }
        batch_size: 1024
        trainers: 1
        epochs: 5
        distinct_epochs: 5
        mmap {}
        shuffled {}
        off {}
      }
      trains {
        sage { hidden: 256 }
        adam { learning_rate: 0.003 }
        constant {}
        train_threads: 4
      }
      pipeline { samplers: 2 extractors: 2 }
      machines: 1
      rejoin_wait_seconds: 300
    })pb");
  const v1::JobSpec spec = Fill(Train("", "sage {}"));
  EXPECT_TRUE(
      google::protobuf::util::MessageDifferencer::Equals(spec, expected))
      << spec.DebugString();
}

TEST(SpecMappingTest, FillingTwiceChangesNothing) {
  for (const char* train :
       {"sage {}", "gat {} adamw {}", "gcn {} sgd {}", "gatv2 {}", "gin {}"}) {
    const v1::JobSpec once = Fill(Train("", train));
    const v1::JobSpec twice = Fill(once.DebugString());
    EXPECT_TRUE(
        google::protobuf::util::MessageDifferencer::Equals(once, twice));
  }
}

TEST(SpecMappingTest, DefaultsOfModelsAndOptimizers) {
  const v1::TrainSpec gat =
      Fill(Train("", "gat {} adamw {}")).train().trains(0);
  EXPECT_EQ(gat.gat().hidden(), 256u);
  EXPECT_EQ(gat.gat().heads(), 4u);
  EXPECT_EQ(gat.adamw().learning_rate(), 0.003);
  EXPECT_EQ(gat.adamw().weight_decay(), 0.01);
  const v1::TrainSpec gcn = Fill(Train("", "gcn {} sgd {}")).train().trains(0);
  EXPECT_EQ(gcn.gcn().hidden(), 256u);
  EXPECT_EQ(gcn.sgd().learning_rate(), 0.003);
  EXPECT_EQ(gcn.sgd().momentum(), 0);
}

TEST(SpecMappingTest, AZeroWeightDecayOfAdamWIsKept) {
  const v1::JobSpec spec = Fill(Train("", "sage {} adamw { weight_decay: 0 }"));
  EXPECT_EQ(spec.train().trains(0).adamw().weight_decay(), 0);
}

TEST(SpecMappingTest, DefaultThreadsFitTheMachine) {
  v1::JobSpec spec = Parse(Train("", "sage {}"));
  ASSERT_TRUE(FillAndValidate({.processors = 1}, spec).ok());
  EXPECT_EQ(spec.train().trains(0).train_threads(), 1u);
}

TEST(SpecMappingTest, TheBoundsThemselvesAreAllowed) {
  Fill(Train(absl::StrCat("batch_size: 1048576 epochs: 100000 ", Fanouts(16)),
             "gat { hidden: 65536 heads: 1024 } train_threads: 8"));
  Fill(Train("batch_size: 16 trainers: 16", "sage {}"));
  Fill(Train("neighbor { fanouts: [ -1, 1048576 ] }", "none {} dropout: 0.99"));
  Fill(absl::StrCat("import { name: '", std::string(128, 'x'),
                    "' path: '/a' }"));
}

// Train job with the strategy `data`.
std::string WithStrategy(const std::string& data) {
  return absl::StrCat("train { data { dataset: 'wordnet' ", data,
                      " } trains { sage {} } }");
}

std::string Complaint(const std::string& text) {
  v1::JobSpec spec = Parse(text);
  const absl::Status status = FillAndValidate(kLimits, spec);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(status.message());
}

TEST(SpecMappingTest, StrategiesHaveDefaults) {
  v1::TrainJobSpec spec = Fill(WithStrategy("gnndrive {}")).train();
  EXPECT_EQ(spec.data().budgets().cpu_cache_bytes(), uint64_t{1} << 30);
  EXPECT_EQ(spec.data().budgets().staging_bytes(), 0u);
  EXPECT_EQ(spec.data().gnndrive().sample_queue(), 6u);
  EXPECT_EQ(spec.data().gnndrive().train_queue(), 4u);
  EXPECT_EQ(spec.pipeline().extractors(), 2u);
  EXPECT_EQ(spec.pipeline().io_depth(), 64u);
  spec = Fill(WithStrategy("diskgnn {}")).train();
  EXPECT_EQ(spec.data().budgets().cpu_cache_bytes(), uint64_t{1} << 30);
  EXPECT_FALSE(spec.data().diskgnn().has_prepare_memory_bytes());
  EXPECT_FALSE(spec.data().diskgnn().has_disk_cache_bytes());
}

TEST(SpecMappingTest, ThreadsThatAreNotGivenFollowTheProcessors) {
  const auto pipeline = [](const std::string& text, uint32_t processors) {
    v1::JobSpec spec = Parse(WithStrategy(text));
    EXPECT_TRUE(FillAndValidate({.processors = processors}, spec).ok());
    return spec.train().pipeline();
  };
  EXPECT_EQ(pipeline("memory {}", 1).samplers(), 1u);
  EXPECT_EQ(pipeline("memory {}", 1).extractors(), 1u);
  EXPECT_EQ(pipeline("gnndrive {}", 2).extractors(), 2u);
  EXPECT_EQ(pipeline("gnndrive {}", 16).extractors(), 4u);
  EXPECT_EQ(pipeline("memory {}", 16).samplers(), 4u);
  EXPECT_EQ(pipeline("memory {}", 128).extractors(), 16u);
  EXPECT_EQ(pipeline("gids {}", 16).samplers(), 4u);
  EXPECT_EQ(pipeline("gids {}", 16).extractors(), 0u);
  const auto train_threads = [](uint32_t trainers, uint32_t processors) {
    v1::JobSpec spec =
        Parse(Train(absl::StrCat("trainers: ", trainers), "sage {}"));
    EXPECT_TRUE(FillAndValidate({.processors = processors}, spec).ok());
    return spec.train().trains(0).train_threads();
  };
  EXPECT_EQ(train_threads(1, 2), 2u);
  EXPECT_EQ(train_threads(1, 16), 8u);
  EXPECT_EQ(train_threads(2, 16), 4u);
  EXPECT_EQ(train_threads(8, 16), 2u);
  EXPECT_EQ(train_threads(1, 128), 16u);
  const v1::PipelineSpec given =
      pipeline("memory {} } pipeline { samplers: 1 extractors: 2", 64);
  EXPECT_EQ(given.samplers(), 1u);
  EXPECT_EQ(given.extractors(), 2u);
}

TEST(SpecMappingTest, AnAutoCacheStays) {
  const v1::TrainJobSpec spec =
      Fill(WithStrategy("ginex {} budgets { cpu_cache_rule: 'auto' }")).train();
  EXPECT_EQ(spec.data().budgets().cpu_cache_rule(), "auto");
  EXPECT_FALSE(spec.data().budgets().has_cpu_cache_bytes());
  EXPECT_THAT(
      Complaint(WithStrategy("ginex {} budgets { cpu_cache_rule: 'all' }")),
      HasSubstr("train.data.budgets.cpu_cache_rule: must be auto"));
  EXPECT_THAT(
      Complaint(WithStrategy("mmap {} budgets { cpu_cache_rule: 'auto' }")),
      HasSubstr("cpu_cache_rule: must be absent"));
}

TEST(SpecMappingTest, TheBudgetsOfGidsFollowTheData) {
  const v1::TrainJobSpec spec = Fill(WithStrategy("gids {}")).train();
  EXPECT_EQ(spec.data().budgets().cpu_cache_rule(), "auto");
  EXPECT_FALSE(spec.data().budgets().has_cpu_cache_bytes());
  EXPECT_EQ(spec.data().gids().hot(), "reverse-pagerank");
  EXPECT_EQ(spec.data().gids().window(), 8u);
  EXPECT_EQ(spec.data().gids().merge_max(), 32u);
  EXPECT_EQ(spec.pipeline().io_depth(), 0u);
  EXPECT_EQ(
      Fill(WithStrategy("gids { window: 0 }")).train().data().gids().window(),
      0u);
  EXPECT_GE(ToTrainJobOptions(spec, "/d", "/j").pipeline.extractors, 1);
}

// What is left open is the engine's to choose; until then, it is as memory.
TEST(SpecMappingTest, AnAutomaticStrategyHasBudgets) {
  const v1::TrainJobSpec spec = Fill(WithStrategy("auto {}")).train();
  const job::TrainJobOptions options = ToTrainJobOptions(spec, "/d", "/j");
  EXPECT_EQ(options.data.automatic, strategy::CommonBudgets());
  EXPECT_TRUE(options.data.Validate().ok());
  EXPECT_EQ(strategy::Name(options.data.strategy), "memory");
  EXPECT_EQ(options.pipeline.extractors, 2);
  const v1::TrainJobSpec given =
      Fill(WithStrategy("auto {} budgets { cpu_cache_bytes: 7 }")).train();
  EXPECT_EQ(ToTrainJobOptions(given, "/d", "/j").data.automatic,
            strategy::CommonBudgets{.cpu_cache_bytes = 7});
  EXPECT_FALSE(
      ToTrainJobOptions(Fill(WithStrategy("memory {}")).train(), "/d", "/j")
          .data.automatic.has_value());
}

TEST(SpecMappingTest, SamplersHaveDefaults) {
  EXPECT_THAT(
      Fill(Train("neighbor {}", "sage {}")).train().data().neighbor().fanouts(),
      ElementsAre(10, 10, 10));
  EXPECT_THAT(
      Fill(Train("ladies {}", "sage {}")).train().data().ladies().layer_nodes(),
      ElementsAre(512, 512, 512));
}

TEST(SpecMappingTest, InASubgraphEachNodeDrawsOnce) {
  EXPECT_THAT(
      Fill(Train("subgraph {}", "sage {}")).train().data().subgraph().fanouts(),
      ElementsAre(10, 10, 10));
  const v1::TrainJobSpec spec =
      Fill(Train("subgraph { fanouts: [ 7, -1 ] fanouts_of: 'cites=2,0' }",
                 "gat {}"))
          .train();
  EXPECT_FALSE(spec.data().has_neighbor());
  const job::BatchOptions data = ToTrainJobOptions(spec, "/d", "/j").data;
  EXPECT_TRUE(data.once);
  EXPECT_THAT(data.fanouts, ElementsAre(7, -1));
  EXPECT_THAT(data.fanouts_of, ElementsAre(job::EdgeTypeFanouts{
                                   .edge_type = "cites", .fanouts = {2, 0}}));
  EXPECT_FALSE(ToTrainJobOptions(Fill(Train("", "sage {}")).train(), "/d", "/j")
                   .data.once);
}

TEST(SpecMappingTest, LayersAreDrawnFromAllNeighbors) {
  const v1::TrainJobSpec spec =
      Fill(Train("ladies { layer_nodes: [ 7, 9 ] }", "gcn {}")).train();
  EXPECT_FALSE(spec.data().has_neighbor());
  const job::BatchOptions data = ToTrainJobOptions(spec, "/d", "/j").data;
  EXPECT_THAT(data.layer_nodes, ElementsAre(7, 9));
  EXPECT_THAT(data.fanouts, ElementsAre(-1, -1));
}

TEST(SpecMappingTest, NoCacheIsABudgetToo) {
  const v1::DataSpec data =
      Fill(WithStrategy("ginex {} budgets { cpu_cache_bytes: 0 }"))
          .train()
          .data();
  EXPECT_TRUE(data.budgets().has_cpu_cache_bytes());
  EXPECT_EQ(data.budgets().cpu_cache_bytes(), 0u);
}

TEST(SpecMappingTest, OutreAndCrossCountsGoWithPartitions) {
  const v1::DataSpec data = Fill(WithStrategy("outre {}")).train().data();
  EXPECT_TRUE(data.has_partition());
  EXPECT_EQ(data.partition().macro_batch_parts(), 20u);
  Fill(WithStrategy("ginex { neighbor_rank_cross: true } partition {}"));
  EXPECT_THAT(Complaint(WithStrategy("outre {} shuffled {}")),
              HasSubstr("train.data.order: must be partition"));
  EXPECT_THAT(Complaint(WithStrategy("ginex { neighbor_rank_cross: true }")),
              HasSubstr("train.data.ginex.neighbor_rank_cross: must be ratio"));
}

TEST(SpecMappingTest, OptionsThatDoNotApplyAreRefused) {
  for (const auto& [data, complaint] :
       {std::pair{"memory {} budgets { cpu_cache_bytes: 1 }",
                  "train.data.budgets.cpu_cache_bytes: must be absent: "
                  "not an option of strategy memory; strategies that have it: "
                  "gnndrive, ginex, diskgnn, outre, gids, foresight, auto"},
        {"ginex {} budgets { staging_bytes: 1 }",
         "train.data.budgets.staging_bytes: must be absent: not an option of "
         "strategy ginex; strategies that have it: gnndrive, gids, auto"},
        {"gids {} } pipeline { extractors: 2",
         "train.pipeline.extractors: must be absent"},
        {"gids { hot: 'cold' }",
         "train.data.gids.hot: must be reverse-pagerank, "},
        {"gids { window: 4097 }", "train.data.gids.window: must be at most"},
        {"mmap {} budgets { gpu_cache_bytes: 1 }",
         "train.data.budgets.gpu_cache_bytes: must be absent"}}) {
    EXPECT_THAT(Complaint(WithStrategy(data)), HasSubstr(complaint));
  }
}

// Earlier daemons filled the default in for all strategies.
TEST(SpecMappingTest, DefaultsMayStandWhereTheyDoNotApply) {
  Fill(
      "train { data { dataset: 'wordnet' mmap {} budgets {} } trains { sage {} "
      "} pipeline { io_depth: 64 } }");
}

TEST(SpecMappingTest, BoundsOfStrategiesAreNamed) {
  for (const auto& [data, complaint] :
       {std::pair{"gnndrive { sample_queue: 1025 }",
                  "train.data.gnndrive.sample_queue: must be at most"},
        {"gnndrive { train_queue: 1025 }",
         "train.data.gnndrive.train_queue: must be at most"},
        {"ginex { superbatch: 1048577 }",
         "train.data.ginex.superbatch: must be at most"},
        {"ginex { neighbor_cache_bytes: 1125899906842625 }",
         "neighbor_cache_bytes: must be at most"},
        {"ginex {} budgets { cpu_cache_bytes: 1125899906842625 }",
         "cpu_cache_bytes: must be at most"},
        {"diskgnn { disk_limit_ratio: 0 }", "disk_limit_ratio: must be above"},
        {"diskgnn { disk_limit_ratio: nan }", "disk_limit_ratio: must"},
        {"diskgnn { prepare_memory_bytes: 4096 }",
         "prepare_memory_bytes: must be at least"},
        {"diskgnn {} budgets { gpu_cache_bytes: 1 }",
         "gpu_cache_bytes: must be 0: this daemon uses no GPU"},
        {"gids { window_cache_bytes: 1 } budgets { gpu_cache_bytes: 1 }",
         "train.data.gids.window_cache_bytes: must be auto where"}}) {
    EXPECT_THAT(Complaint(WithStrategy(data)), HasSubstr(complaint));
  }
}

TEST(SpecMappingTest, AStrategyMustBeChosen) {
  EXPECT_THAT(Complaint(WithStrategy("budgets { cpu_cache_bytes: 1 }")),
              "train.data.strategy: must be one of memory, mmap, gnndrive, "
              "ginex, diskgnn, outre, gids, foresight, marius, auto");
}

// The engine has no more trainers.
TEST(SpecMappingTest, AsManyTrainersAsTheEngineHas) {
  const std::string data =
      absl::StrCat("mmap {} trainers: ", train::kMaxTrainers);
  Fill(WithStrategy(data));
  EXPECT_THAT(Complaint(WithStrategy(data + "0")),
              HasSubstr(absl::StrCat("must be at most ", train::kMaxTrainers)));
}

TEST(SpecMappingTest, StageThreadsAreBounded) {
  v1::JobSpec spec = Parse(Train("", "sage {}"));
  spec.mutable_train()->mutable_pipeline()->set_samplers(65);
  spec.mutable_train()->mutable_pipeline()->set_extractors(65);
  const absl::Status status = FillAndValidate(kLimits, spec);
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(HasSubstr("train.pipeline.samplers"),
                             HasSubstr("train.pipeline.extractors")));
}

TEST(SpecMappingTest, AllFaultsAreNamedAtOnceUpToABound) {
  v1::JobSpec spec = Parse(
      "train { data { epochs: 100001 } trains { sage { hidden: 65537 } } }");
  const std::string message(FillAndValidate(kLimits, spec).message());
  EXPECT_THAT(message, HasSubstr("train.data.dataset"));
  EXPECT_THAT(message, HasSubstr("train.data.epochs"));
  EXPECT_THAT(message, HasSubstr("train.data.strategy"));
  EXPECT_THAT(message, HasSubstr("train.trains[0].sage.hidden"));
  spec =
      Parse(Train("neighbor { fanouts: [0,0,0,0,0,0,0,0,0,0,0] }", "sage {}"));
  EXPECT_THAT(std::string(FillAndValidate(kLimits, spec).message()),
              testing::Not(HasSubstr("fanouts[8]")));
}

TEST(SpecMappingTest, AnEmptySpecIsRefused) {
  v1::JobSpec spec;
  EXPECT_TRUE(absl::IsInvalidArgument(FillAndValidate(kLimits, spec)));
}

TEST(SpecMappingTest, SeveralModelsAreNotImplemented) {
  v1::JobSpec spec = Parse(Train("", "sage {} } trains { gcn {}"));
  const absl::Status status = FillAndValidate(kLimits, spec);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("train.trains"));
}

TEST(SpecMappingTest, EveryOptionReachesTheEngine) {
  const v1::JobSpec spec = Fill(R"pb(
    train {
      data {
        dataset: 'wordnet'
        neighbor { fanouts: [ 7, -1 ] }
        batch_size: 11
        trainers: 10
        epochs: 12
        distinct_epochs: 3
        data_seed: 14
        mmap {}
      }
      trains {
        gat { hidden: 32 heads: 8 }
        sgd { learning_rate: 0.5 momentum: 0.25 weight_decay: 0.125 }
        clip_norm: 2.5
        dropout: 0.5
        model_seed: 15
        patience: 4
        train_threads: 6
        class_weights { values: [ 1, 5.5 ] }
        metric: 'roc_auc'
        precision: 'bf16'
      }
      pipeline { samplers: 2 extractors: 3 }
      checkpoint_every: 9
    })pb");
  const job::TrainJobOptions options =
      ToTrainJobOptions(spec.train(), "/d/wordnet", "/d/jobs/train-1");
  EXPECT_TRUE(options.Validate().ok());
  EXPECT_EQ(options.data.dataset_path, "/d/wordnet");
  EXPECT_THAT(options.data.fanouts, ElementsAre(7, -1));
  EXPECT_EQ(options.data.batch_size, 11);
  EXPECT_EQ(options.data.trainers, 10);
  EXPECT_EQ(options.data.epochs, 12);
  EXPECT_EQ(options.data.distinct_epochs, 3);
  EXPECT_EQ(options.data.data_seed, 14u);
  EXPECT_EQ(strategy::Name(options.data.strategy), "mmap");
  EXPECT_EQ(options.train.clip_norm, 2.5);
  EXPECT_EQ(options.train.dropout, 0.5);
  EXPECT_EQ(options.train.model_seed, 15u);
  EXPECT_EQ(options.train.train_threads, 6);
  EXPECT_THAT(options.train.class_weights.values, ElementsAre(1, 5.5));
  EXPECT_FALSE(options.train.class_weights.balanced);
  EXPECT_EQ(options.train.metric, train::Metric::kRocAuc);
  EXPECT_EQ(options.train.precision, train::Precision::kBfloat16);
  EXPECT_EQ(options.patience, 4);
  EXPECT_EQ(options.pipeline.samplers, 2);
  EXPECT_EQ(options.pipeline.extractors, 3);
  EXPECT_EQ(options.checkpoint_every, 9);
  EXPECT_EQ(options.directory, "/d/jobs/train-1");
  const auto& gat = std::get<train::GatOptions>(options.train.model);
  EXPECT_EQ(gat.hidden, 32);
  EXPECT_EQ(gat.heads, 8);
  const auto& sgd = std::get<train::SgdOptions>(options.train.optimizer);
  EXPECT_EQ(sgd.learning_rate, 0.5);
  EXPECT_EQ(sgd.momentum, 0.25);
  EXPECT_EQ(sgd.weight_decay, 0.125);
}

TEST(SpecMappingTest, WeightsAndMetricMayBeLeftToTheData) {
  v1::JobSpec spec = Fill(Train("", "sage {} balanced_classes: true"));
  train::TrainOptions options = ToTrainJobOptions(spec.train(), "", "").train;
  EXPECT_TRUE(options.class_weights.balanced);
  EXPECT_TRUE(options.class_weights.values.empty());
  EXPECT_EQ(options.metric, std::nullopt);
  spec = Fill(Train("", "sage {}"));
  options = ToTrainJobOptions(spec.train(), "", "").train;
  EXPECT_TRUE(options.class_weights.empty());
}

TEST(SpecMappingTest, EveryModelOptimizerAndStrategyHasItsOptions) {
  const auto options = [](const std::string& text) {
    return ToTrainJobOptions(Fill(text).train(), "", "");
  };
  EXPECT_EQ(std::get<train::SageOptions>(
                options(Train("", "sage { hidden: 5 }")).train.model)
                .hidden,
            5);
  EXPECT_EQ(std::get<train::GcnOptions>(
                options(Train("", "gcn { hidden: 6 }")).train.model)
                .hidden,
            6);
  EXPECT_TRUE(std::holds_alternative<train::NoModelOptions>(
      options(Train("", "none {}")).train.model));
  EXPECT_EQ(std::get<train::AdamOptions>(
                options(Train("", "none {} adam { weight_decay: 2 }"))
                    .train.optimizer)
                .weight_decay,
            2);
  EXPECT_EQ(std::get<train::AdamWOptions>(
                options(Train("", "none {} adamw { learning_rate: 3 }"))
                    .train.optimizer)
                .learning_rate,
            3);
  EXPECT_EQ(strategy::Name(options("train { data { dataset: 'a' memory {} } "
                                   "trains { none {} } }")
                               .data.strategy),
            "memory");
}

TEST(SpecMappingTest, JobsShareWhereTheirBatchesAreTheSame) {
  const auto key = [](const std::string& data, const std::string& train) {
    return SharingKeyOf(Fill(Train(data, train)).train());
  };
  const std::string one = key("distinct_epochs: 2", "sage {}");
  EXPECT_FALSE(one.empty());
  EXPECT_EQ(one, key("distinct_epochs: 2 epochs: 9", "gat {} dropout: 0.1"));
  EXPECT_EQ(one, key("distinct_epochs: 2 first_epoch_key: 1", "sage {}"));
  EXPECT_NE(one, key("distinct_epochs: 3", "sage {}"));
  EXPECT_NE(one, key("distinct_epochs: 2 epochs: 1", "sage {}"));
  EXPECT_NE(one, key("distinct_epochs: 2 data_seed: 5", "sage {}"));
  EXPECT_NE(one, key("distinct_epochs: 2 batch_size: 5", "sage {}"));
  EXPECT_NE(one, key("distinct_epochs: 2 subgraph {}", "sage {}"));
  // The job neither validates nor tests.
  EXPECT_NE(one, key("distinct_epochs: 2", "none {}"));
  EXPECT_EQ(key("refresh_epochs: 2", "sage {}"), "");
  EXPECT_EQ(SharingKeyOf(v1::TrainJobSpec()), "");
}

TEST(SpecMappingTest, FeedsHaveTheirDefaults) {
  const v1::FeedSpec spec = Fill(Feed("", "")).feed();
  EXPECT_EQ(spec.data().distinct_epochs(), 100'000u);
  EXPECT_EQ(spec.data().epochs(), 100'000u);
  EXPECT_EQ(spec.credits(), 4u);
  EXPECT_EQ(spec.data().batch_size(), 1024u);
  EXPECT_FALSE(spec.join());
  const v1::FeedSpec given =
      Fill(
          "feed { data { dataset: 'x' ginex {} distinct_epochs: 7 epochs: 3 } "
          "credits: 16 }")
          .feed();
  EXPECT_EQ(given.data().distinct_epochs(), 7u);
  EXPECT_EQ(given.data().epochs(), 7u);
  EXPECT_EQ(given.credits(), 16u);
}

TEST(SpecMappingTest, FeedsReachTheEngine) {
  const auto channel = std::make_shared<feed::Channel>(Clock::Real());
  const v1::FeedSpec spec =
      Fill(Feed("subgraph { fanouts: [ 3, 2 ] } distinct_epochs: 7",
                "credits: 5 join: true"))
          .feed();
  const job::TrainJobOptions options =
      ToFeedJobOptions(spec, "/dataset", "/job", {channel});
  ASSERT_TRUE(options.feed.has_value());
  EXPECT_THAT(options.feed->channels, ::testing::ElementsAre(channel));
  EXPECT_EQ(options.feed->credits, 5);
  EXPECT_TRUE(options.join);
  EXPECT_EQ(options.sharing_key, SharingKeyOf(spec));
  EXPECT_EQ(options.directory, "/job");
  EXPECT_EQ(options.data.dataset_path, "/dataset");
  EXPECT_TRUE(options.data.once);
  EXPECT_EQ(options.data.distinct_epochs, 7);
  EXPECT_TRUE(options.HasModel()) << "its client has one";
  EXPECT_EQ(options.Validate(), absl::OkStatus());
}

TEST(SpecMappingTest, NodesOfFeedsAreInTheJobsFolder) {
  const v1::FeedSpec spec =
      Fill(Feed("", Nodes("valid", 7, 'a') + Nodes("train", 8, 'b'))).feed();
  const job::OwnNodes own =
      ToFeedJobOptions(spec, "/dataset", "/job", {}).data.own_nodes;
  ASSERT_TRUE(own.train.has_value() && own.valid.has_value());
  EXPECT_FALSE(own.test.has_value());
  EXPECT_EQ(own.train->count, 8);
  EXPECT_EQ(own.valid->path,
            absl::StrCat("/job/nodes-", std::string(64, 'a'), ".npy"));
  EXPECT_EQ(own.valid->sha256, std::string(64, 'a'));
}

TEST(SpecMappingTest, FeedsShareWithTrainJobsOfTheSameBatches) {
  const auto feed = [](const std::string& data, const std::string& more = "") {
    return SharingKeyOf(Fill(Feed(data, more)).feed());
  };
  const auto train = [](const std::string& data, const std::string& model) {
    return SharingKeyOf(Fill(Train(data, model)).train());
  };
  const std::string one = feed("distinct_epochs: 2");
  EXPECT_FALSE(one.empty());
  EXPECT_EQ(one, train("distinct_epochs: 2", "sage {}"));
  EXPECT_EQ(one, train("distinct_epochs: 2 epochs: 9", "gat {}"));
  EXPECT_EQ(one, feed("distinct_epochs: 2", "credits: 9 join: true"));
  EXPECT_EQ(feed(""), train("epochs: 100000", "sage {}"));
  EXPECT_NE(one, train("distinct_epochs: 2", "none {}"));
  EXPECT_NE(one, train("distinct_epochs: 3", "sage {}"));
  EXPECT_NE(one, feed("distinct_epochs: 2 batch_size: 5"));
  EXPECT_NE(one, feed("distinct_epochs: 2 data_seed: 5"));
  EXPECT_NE(one, feed("distinct_epochs: 2 subgraph {}"));
  const std::string a = Nodes("train", 3, 'a');
  const std::string own = feed("distinct_epochs: 2", a);
  EXPECT_NE(one, own);
  EXPECT_EQ(own, feed("distinct_epochs: 2", a + "credits: 9"));
  EXPECT_NE(own, feed("distinct_epochs: 2", Nodes("train", 3, 'b')));
  EXPECT_NE(own, feed("distinct_epochs: 2", Nodes("valid", 3, 'a')));
  const std::string b = Nodes("valid", 3, 'b');
  EXPECT_EQ(feed("", a + b), feed("", b + a));
}

TEST(SpecMappingTest, FeaturesAreStripedWhereThereAreDisks) {
  const auto check = [](const std::string& gids, int disks) {
    v1::JobSpec spec = Parse(WithStrategy(gids));
    return FillAndValidate({.processors = 8, .data_disks = disks}, spec);
  };
  EXPECT_EQ(check("gids {}", 0), absl::OkStatus());
  EXPECT_EQ(check("gids { striped: true }", 2), absl::OkStatus());
  const absl::Status refused = check("gids { striped: true }", 0);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(
      std::string(refused.message()),
      AllOf(HasSubstr("train.data.gids.striped"), HasSubstr("no --data-disk")));
}

TEST(SpecMappingTest, TheGpuThatTrainsSamples) {
  const auto spec = [](const std::string& device, const std::string& pipeline) {
    v1::JobSpec made =
        Parse(absl::StrCat("train { data { dataset: 'x' memory {} } trains { "
                           "sage {} device: '",
                           device, "' } pipeline { ", pipeline, " } }"));
    SpecLimits limits = kLimits;
    limits.gpus = 2;
    limits.trains_on_gpus = absl::OkStatus();
    const absl::Status status = FillAndValidate(limits, made);
    EXPECT_TRUE(status.ok()) << status;
    return made.train();
  };
  const auto gpu = [&](const std::string& device, const std::string& pipeline) {
    const job::TrainJobOptions options =
        ToTrainJobOptions(spec(device, pipeline), "", "");
    EXPECT_TRUE(options.Validate().ok());
    return options.pipeline.sampling_gpu;
  };
  EXPECT_EQ(gpu("cuda", ""), std::nullopt);
  EXPECT_EQ(gpu("cuda", "sample_on: 'gpu'"), 0);
  EXPECT_EQ(gpu("cuda:1", "sample_on: 'gpu'"), 1);
  // Jobs share passes that are sampled on one GPU.
  const std::string one = SharingKeyOf(spec("cuda", "sample_on: 'gpu'"));
  EXPECT_EQ(one, SharingKeyOf(spec("cuda:0", "sample_on: 'gpu'")));
  EXPECT_NE(one, SharingKeyOf(spec("cuda:1", "sample_on: 'gpu'")));
  EXPECT_NE(one, SharingKeyOf(spec("cuda", "")));
  EXPECT_EQ(SharingKeyOf(spec("cpu", "")), SharingKeyOf(spec("cuda", "")));
}

TEST(SpecMappingTest, SchedulesReachTheEngine) {
  const auto options = [](const std::string& text) {
    return ToTrainJobOptions(Fill(Train("", text)).train(), "", "").train;
  };
  EXPECT_TRUE(std::holds_alternative<train::ConstantSchedule>(
      options("sage {}").schedule));
  const train::TrainOptions cosine =
      options("sage {} cosine { min_learning_rate: 0.001 } warmup_epochs: 2");
  EXPECT_EQ(std::get<train::CosineSchedule>(cosine.schedule).min_learning_rate,
            0.001);
  EXPECT_EQ(cosine.warmup_epochs, 2);
  const auto step =
      std::get<train::StepSchedule>(options("sage {} step {}").schedule);
  EXPECT_EQ(step.epochs, 10);
  EXPECT_EQ(step.gamma, 0.1);
}

TEST(SpecMappingTest, PrepareHasTheDefaultsOfTraining) {
  const v1::PrepareSpec spec =
      Fill("prepare { data { dataset: 'wordnet' diskgnn {} } }").prepare();
  EXPECT_EQ(spec.data().batch_size(), 1024u);
  EXPECT_EQ(spec.data().distinct_epochs(), 5u);
  EXPECT_EQ(spec.pipeline().io_depth(), 64u);
  const job::PrepareJobOptions options = ToPrepareJobOptions(spec, "/d");
  EXPECT_EQ(options.data.dataset_path, "/d");
  EXPECT_EQ(options.data.epochs, 5);
  EXPECT_TRUE(
      std::holds_alternative<strategy::DiskgnnOptions>(options.data.strategy));
  EXPECT_FALSE(options.training_only);
  EXPECT_EQ(options.embedding_width, 256);
  const v1::PrepareSpec without =
      Fill(
          "prepare { data { dataset: 'wordnet' diskgnn {} } "
          "training_only: true }")
          .prepare();
  EXPECT_EQ(ToPrepareJobOptions(without, "/d").embedding_width, 0);
}

TEST(SpecMappingTest, NodesAreShuffledUnlessTheSpecNamesAnotherOrder) {
  v1::DataSpec data = Fill(WithStrategy("memory {}")).train().data();
  EXPECT_TRUE(data.has_shuffled());
  v1::TrainJobSpec spec = Fill(WithStrategy("memory {} partition {}")).train();
  EXPECT_EQ(spec.data().partition().parts(), 0u);
  EXPECT_EQ(spec.data().partition().macro_batch_parts(), 20u);
  EXPECT_EQ(spec.data().partition().rounds(), 1u);
  const auto order = [](const v1::TrainJobSpec& train) {
    return ToTrainJobOptions(train, "/d", "/j").data.partition_order;
  };
  EXPECT_FALSE(order(Fill(WithStrategy("memory {}")).train()).has_value());
  ASSERT_TRUE(order(spec).has_value());
  EXPECT_EQ(order(spec)->macro_batch_parts, 20);
  spec = Fill(WithStrategy("memory {} partition { parts: 7 bloom: true }"))
             .train();
  EXPECT_EQ(order(spec)->parts, 7);
  EXPECT_TRUE(order(spec)->bloom);
  EXPECT_THAT(
      Complaint(WithStrategy("memory {} partition { rounds: 2 bloom: true }")),
      HasSubstr("train.data.partition.rounds: must be 1 with Bloom filters"));
  EXPECT_THAT(Complaint(WithStrategy("memory {} partition { parts: 65536 }")),
              HasSubstr("train.data.partition.parts: must be at most"));
}

TEST(SpecMappingTest, RowsStayAsTheyAreStoredUnlessTheSpecNamesAType) {
  const auto train = [](const std::string& data) {
    return Fill(WithStrategy(data)).train();
  };
  const auto type = [](const v1::TrainJobSpec& spec) {
    return ToTrainJobOptions(spec, "/d", "/j").data.row_dtype;
  };
  const v1::TrainJobSpec stored = train("mmap {}");
  const v1::TrainJobSpec rounded = train("mmap {} row_dtype: 'int8'");
  EXPECT_EQ(type(stored), std::nullopt);
  EXPECT_EQ(type(train("mmap {} row_dtype: 'bf16'")), store::DType::kBFloat16);
  EXPECT_EQ(type(rounded), store::DType::kScaledInt8);
  EXPECT_NE(SharingKeyOf(stored), SharingKeyOf(rounded));
  EXPECT_THAT(Complaint(WithStrategy("mmap {} row_dtype: 'fp8'")),
              HasSubstr("train.data.row_dtype: must be"));
  // There is something to prepare.
  EXPECT_EQ(Fill("prepare { data { dataset: 'd' mmap {} row_dtype: 'int8' } }")
                .prepare()
                .data()
                .row_dtype(),
            "int8");
}

TEST(SpecMappingTest, AHistoryIsForModelsWithEmbeddingsAndBatchesInOrder) {
  EXPECT_TRUE(Fill(WithStrategy("memory {}")).train().data().has_off());
  const auto history = [](const std::string& data) {
    return ToTrainJobOptions(Fill(WithStrategy(data)).train(), "/d", "/j")
        .data.history;
  };
  EXPECT_FALSE(history("memory {}").has_value());
  ASSERT_TRUE(history("memory {} on { cache_bytes: 9 }").has_value());
  EXPECT_EQ(history("mmap {} on { cache_bytes: 9 }")->cache_bytes, 9u);
  EXPECT_EQ(history("gnndrive {} on { staleness: 7 }")->staleness, 7);
  EXPECT_EQ(history("diskgnn {} on { staleness: 7 }")->staleness, 7);
  EXPECT_FALSE(history("ginex {} on {}")->share.has_value());
  EXPECT_EQ(history("ginex {} on { share: 0 sample_weight: 2.5 }")->share, 0);
  EXPECT_EQ(history("ginex {} on { sample_weight: 2.5 }")->sample_weight, 2.5);
  EXPECT_THAT(
      Complaint(WithStrategy("ginex {} on { share: 0.5 cache_bytes: 9 }")),
      HasSubstr("train.data.on.share: must be auto"));
  EXPECT_THAT(Complaint(WithStrategy("memory {} on { share: 0.5 }")),
              HasSubstr("train.data.on.share: must be auto: strategy memory"));
  EXPECT_EQ(history("memory {} on {}")->compare_epochs, 0);
  EXPECT_EQ(
      history("memory {} epochs: 3 on { compare_epochs: 3 }")->compare_epochs,
      3);
  EXPECT_THAT(
      Complaint(WithStrategy("memory {} epochs: 2 on { compare_epochs: 3 }")),
      HasSubstr("train.data.on.compare_epochs: must be at most epochs (2), "
                "not 3"));
  EXPECT_THAT(Complaint("train { data { dataset: 'a' memory {} on { "
                        "compare_epochs: 1 } } trains { none {} } }"),
              HasSubstr("train.data.on.compare_epochs: must be 0 for model "
                        "none"));
  for (const char* data :
       {"gnndrive { reorder: true } on {}", "marius {} on {}",
        "memory {} on {} neighbor { fanouts: 5 }"}) {
    EXPECT_THAT(Complaint(WithStrategy(data)),
                HasSubstr("train.data.history: must be off"));
  }
}

TEST(SpecMappingTest, LocalityIsAnOrderOfItsOwn) {
  const auto options = [](const std::string& data) {
    return ToTrainJobOptions(Fill(WithStrategy(data)).train(), "/d", "/j").data;
  };
  EXPECT_TRUE(options("memory {} locality {}").locality_order);
  EXPECT_FALSE(options("memory {} locality {}").partition_order.has_value());
  EXPECT_FALSE(options("memory {} partition {}").locality_order);
  EXPECT_EQ(SharingKeyOf(Fill(WithStrategy("memory {} locality {}")).train()),
            "");
  EXPECT_THAT(Complaint(WithStrategy("outre {} locality {}")),
              HasSubstr("train.data.order: must be partition"));
  EXPECT_THAT(Complaint(WithStrategy(
                  "ginex { neighbor_rank_cross: true } locality {}")),
              HasSubstr("must be ratio unless order is partition"));
  EXPECT_THAT(Complaint(WithStrategy("memory {} locality {} on {}")),
              HasSubstr("train.data.history: must be off with order locality"));
  EXPECT_THAT(Complaint(WithStrategy("memory {} locality {} epochs: 3 "
                                     "first_epoch_key: 1")),
              HasSubstr("train.data.first_epoch_key: must be 0 with"));
  EXPECT_THAT(Complaint("train { data { dataset: 'a' memory {} locality {} } "
                        "trains { none {} } }"),
              HasSubstr("train.data.order: must be shuffled or partition for "
                        "model none"));
  EXPECT_THAT(Complaint("feed { data { dataset: 'a' memory {} locality {} } }"),
              HasSubstr("feed.data.order: must be shuffled or partition for a "
                        "feed"));
  // It makes a partition.
  const auto prepare =
      Fill("prepare { data { dataset: 'a' memory {} locality {} } }").prepare();
  EXPECT_TRUE(ToPrepareJobOptions(prepare, "/d").data.locality_order);
}

TEST(SpecMappingTest, APartitionIsSomethingToPrepareForAnyStrategy) {
  const v1::PrepareSpec spec =
      Fill(
          "prepare { data { dataset: 'wordnet' mmap {} partition {} } "
          "partition_only: true }")
          .prepare();
  EXPECT_TRUE(ToPrepareJobOptions(spec, "/d").partition_only);
  EXPECT_THAT(Complaint("prepare { data { dataset: 'wordnet' diskgnn {} } "
                        "partition_only: true }"),
              HasSubstr("prepare.data.order: must be partition"));
}

TEST(SpecMappingTest, OnlyPlansOfDiskgnnAreJoinedFromPieces) {
  const v1::PrepareSpec spec =
      Fill(
          "prepare { data { dataset: 'a' diskgnn {} } pieces: '/p' "
          "num_pieces: 7 }")
          .prepare();
  EXPECT_EQ(ToPrepareJobOptions(spec, "/d").pieces_folder, "/p");
  EXPECT_EQ(ToPrepareJobOptions(spec, "/d").num_pieces, 7);
  const auto complaint = [](const std::string& data) {
    return Complaint("prepare { data { dataset: 'a' " + data +
                     " } pieces: '/p' }");
  };
  EXPECT_THAT(complaint("gids {}"), HasSubstr("must be diskgnn"));
  for (const char* const data :
       {"diskgnn {} on {}", "diskgnn {} row_dtype: 'bf16'"}) {
    EXPECT_THAT(complaint(data), HasSubstr("prepare.pieces: must be empty"));
  }
  EXPECT_THAT(
      Complaint("prepare { data { dataset: 'a' diskgnn {} } pieces: 'p' }"),
      HasSubstr("prepare.pieces: must be an absolute path"));
  EXPECT_THAT(Complaint("prepare { data { dataset: 'a' diskgnn {} } "
                        "pieces: '/p' num_pieces: 513 }"),
              HasSubstr("num_pieces"));
}

TEST(SpecMappingTest, FieldsAreNamedByTheKindOfTheJob) {
  const auto error_of = [](const std::string& text) {
    v1::JobSpec spec = Parse(text);
    const absl::Status status = FillAndValidate(kLimits, spec);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    return std::string(status.message());
  };
  EXPECT_THAT(error_of("prepare { data { dataset: 'wordnet' mmap {} } }"),
              HasSubstr("prepare.data.strategy: must be diskgnn"));
  EXPECT_THAT(error_of("prepare { data { dataset: '/' diskgnn {} } }"),
              HasSubstr("prepare.data.dataset: "));
  EXPECT_THAT(
      error_of("explain { train { data { dataset: '/' mmap {} } trains {} } }"),
      AllOf(HasSubstr("explain.train.data.dataset: "),
            HasSubstr("explain.train.trains[0].model: ")));
  EXPECT_THAT(error_of("evaluate { job_id: 'train-1' train { data { dataset: "
                       "'/' mmap {} } trains {} } }"),
              AllOf(HasSubstr("evaluate.train.data.dataset: "),
                    HasSubstr("evaluate.train.trains[0].model: ")));
}

TEST(SpecMappingTest, RefreshedEpochsAreSampledWithKeysOfTheirOwn) {
  const v1::DataSpec data =
      Fill(Train("epochs: 9 refresh_epochs: 3", "sage {}")).train().data();
  EXPECT_EQ(data.distinct_epochs(), 3u);
  v1::JobSpec spec =
      Parse(Train("refresh_epochs: 3 distinct_epochs: 4", "sage {}"));
  EXPECT_THAT(std::string(FillAndValidate(kLimits, spec).message()),
              HasSubstr("train.data.distinct_epochs: must be at most "
                        "refresh_epochs (3)"));
  spec = Fill(Train("refresh_epochs: 3 distinct_epochs: 2", "sage {}"));
  EXPECT_EQ(ToTrainJobOptions(spec.train(), "", "").data.refresh_epochs, 3);
}

}  // namespace
}  // namespace hearth::server
