#include "client/cli/options/job_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/cli/options/option_values.h"
#include "hearth/v1/spec.pb.h"

namespace hearth::cli {

namespace {

using ::testing::_;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using Flags = std::map<std::string, std::string>;

OptionValues Values(const Flags& flags) {
  OptionValues values = {{"dataset", {"cora", "--dataset"}}};
  for (const auto& [name, text] : flags) values[name] = {text, "--" + name};
  return values;
}

v1::TrainJobSpec SpecOf(const Flags& flags) {
  const absl::StatusOr<v1::TrainJobSpec> spec =
      TrainJobFromOptions(Values(flags));
  EXPECT_TRUE(spec.ok()) << spec.status();
  return spec.value_or(v1::TrainJobSpec());
}

std::string ErrorOf(const Flags& flags) {
  const absl::Status status = TrainJobFromOptions(Values(flags)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(TrainJobFromOptions, MapsTheDataOptions) {
  const v1::DataSpec data = SpecOf({{"strategy", "mmap"},
                                    {"fanouts", "15,-1"},
                                    {"batch-size", "512"},
                                    {"trainers", "4"},
                                    {"epochs", "7"},
                                    {"distinct-epochs", "3"},
                                    {"data-seed", "18446744073709551615"}})
                                .data();
  EXPECT_EQ(data.dataset(), "cora");
  EXPECT_TRUE(data.has_mmap());
  EXPECT_THAT(data.neighbor().fanouts(), ElementsAre(15, -1));
  EXPECT_EQ(data.batch_size(), 512);
  EXPECT_EQ(data.trainers(), 4);
  EXPECT_EQ(data.epochs(), 7);
  EXPECT_EQ(data.distinct_epochs(), 3);
  EXPECT_EQ(data.data_seed(), 18446744073709551615u);
}

TEST(TrainJobFromOptions, MapsTheRunOptions) {
  const v1::TrainJobSpec spec = SpecOf({{"samplers", "4"},
                                        {"extractors", "2"},
                                        {"train-threads", "3"},
                                        {"patience", "5"},
                                        {"dropout", "0.2"},
                                        {"clip-norm", "2"},
                                        {"checkpoint-every", "10"}});
  EXPECT_EQ(spec.pipeline().samplers(), 4);
  EXPECT_EQ(spec.pipeline().extractors(), 2);
  EXPECT_EQ(spec.checkpoint_every(), 10);
  ASSERT_EQ(spec.trains_size(), 1);
  EXPECT_EQ(spec.trains(0).train_threads(), 3);
  EXPECT_EQ(spec.trains(0).patience(), 5);
  EXPECT_EQ(spec.trains(0).dropout(), 0.2);
  EXPECT_EQ(spec.trains(0).clip_norm(), 2);
}

TEST(TrainJobFromOptions, MapsTheOptionsOfGnndrive) {
  const v1::TrainJobSpec spec = SpecOf({{"strategy", "gnndrive"},
                                        {"cpu-cache", "512MiB"},
                                        {"staging", "1GB"},
                                        {"reorder", "true"},
                                        {"buffered-reads", "true"},
                                        {"sample-queue", "8"},
                                        {"train-queue", "3"},
                                        {"io-depth", "32"}});
  EXPECT_EQ(spec.data().budgets().cpu_cache_bytes(), 512u << 20);
  EXPECT_EQ(spec.data().budgets().staging_bytes(), 1000000000u);
  EXPECT_TRUE(spec.data().gnndrive().reorder());
  EXPECT_TRUE(spec.data().gnndrive().buffered_reads());
  EXPECT_EQ(spec.data().gnndrive().sample_queue(), 8u);
  EXPECT_EQ(spec.data().gnndrive().train_queue(), 3u);
  EXPECT_EQ(spec.pipeline().io_depth(), 32u);
}

TEST(TrainJobFromOptions, MapsTheOptionsOfGinex) {
  const v1::DataSpec data = SpecOf({{"strategy", "ginex"},
                                    {"cpu-cache", "0"},
                                    {"superbatch", "50"},
                                    {"neighbor-cache", "64MiB"}})
                                .data();
  EXPECT_TRUE(data.budgets().has_cpu_cache_bytes());
  EXPECT_EQ(data.budgets().cpu_cache_bytes(), 0u);
  EXPECT_EQ(data.ginex().superbatch(), 50u);
  EXPECT_EQ(data.ginex().neighbor_cache_bytes(), 64u << 20);
}

TEST(TrainJobFromOptions, OutreGoesWithAPartitionUnlessTold) {
  const v1::DataSpec data = SpecOf({{"strategy", "outre"},
                                    {"parts", "40"},
                                    {"superbatch", "50"},
                                    {"neighbor-cache", "64MiB"}})
                                .data();
  EXPECT_EQ(data.partition().parts(), 40u);
  EXPECT_EQ(data.outre().superbatch(), 50u);
  EXPECT_EQ(data.outre().neighbor_cache_bytes(), 64u << 20);
  EXPECT_TRUE(SpecOf({{"strategy", "outre"}, {"order", "shuffled"}})
                  .data()
                  .has_shuffled());
  EXPECT_TRUE(SpecOf({{"strategy", "ginex"}}).data().has_shuffled());
}

TEST(TrainJobFromOptions, ClassWeightsAreAListOrBalanced) {
  EXPECT_TRUE(
      SpecOf({{"class-weights", "balanced"}}).trains(0).balanced_classes());
  EXPECT_THAT(
      SpecOf({{"class-weights", "0.5,20"}}).trains(0).class_weights().values(),
      ElementsAre(0.5, 20));
  const v1::TrainSpec none = SpecOf({{"class-weights", "none"}}).trains(0);
  EXPECT_FALSE(none.has_balanced_classes() || none.has_class_weights());
  EXPECT_THAT(ErrorOf({{"class-weights", "1,-1"}}),
              HasSubstr("is not one of none, balanced or a list of up to 65536 "
                        "numbers above 0"));
  EXPECT_EQ(NameFlags("class_weights.values: must have; trains[0].metric: no; "
                      "balanced_classes: must",
                      {}),
            "--class-weights: must have; --metric: no; --class-weights: must");
}

TEST(TrainJobFromOptions, MapsTheOptionsOfDiskgnn) {
  v1::DataSpec data = SpecOf({{"strategy", "diskgnn"},
                              {"cpu-cache", "64MiB"},
                              {"disk-cache", "0"},
                              {"disk-limit", "2GiB"},
                              {"prepare-memory", "32MiB"},
                              {"gpu-cache", "0"}})
                          .data();
  EXPECT_EQ(data.budgets().cpu_cache_bytes(), 64u << 20);
  EXPECT_TRUE(data.diskgnn().has_disk_cache_bytes());
  EXPECT_EQ(data.diskgnn().disk_cache_bytes(), 0u);
  EXPECT_EQ(data.diskgnn().disk_limit_bytes(), uint64_t{2} << 30);
  EXPECT_EQ(data.diskgnn().prepare_memory_bytes(), 32u << 20);
  data = SpecOf({{"strategy", "diskgnn"},
                 {"disk-cache", "auto"},
                 {"disk-limit", "3.5x"}})
             .data();
  EXPECT_FALSE(data.diskgnn().has_disk_cache_bytes());
  EXPECT_EQ(data.diskgnn().disk_limit_ratio(), 3.5);
  EXPECT_THAT(ErrorOf({{"strategy", "diskgnn"}, {"disk-limit", "manyx"}}),
              HasSubstr("is not none or a size such as 512MiB or 4GB or a "
                        "multiple such as 2.5x"));
  EXPECT_THAT(ErrorOf({{"strategy", "ginex"}, {"disk-cache", "0"}}),
              HasSubstr("strategy that has it: diskgnn"));
}

TEST(TrainJobFromOptions, AutoAndAbsentBudgetsAreTheDaemonsToSet) {
  const v1::DataSpec gnndrive =
      SpecOf({{"strategy", "gnndrive"}, {"staging", "auto"}}).data();
  EXPECT_FALSE(gnndrive.budgets().has_cpu_cache_bytes());
  EXPECT_EQ(gnndrive.budgets().staging_bytes(), 0u);
  const v1::DataSpec ginex = SpecOf({{"strategy", "ginex"},
                                     {"superbatch", "auto"},
                                     {"neighbor-cache", "auto"}})
                                 .data();
  EXPECT_EQ(ginex.ginex().superbatch(), 0u);
  EXPECT_EQ(ginex.ginex().neighbor_cache_bytes(), 0u);
}

TEST(TrainJobFromOptions, OptionsOfOtherStrategiesAreRefused) {
  EXPECT_THAT(ErrorOf({{"strategy", "memory"}, {"cpu-cache", "1GiB"}}),
              HasSubstr("--cpu-cache"));
  EXPECT_THAT(ErrorOf({{"mmap-advice", "normal"}}),
              HasSubstr("strategy that has it: mmap"));
  EXPECT_THAT(ErrorOf({{"strategy", "ginex"}, {"reorder", "true"}}),
              HasSubstr("strategy that has it: gnndrive"));
  EXPECT_THAT(ErrorOf({{"strategy", "gnndrive"}, {"superbatch", "4"}}),
              HasSubstr("strategies that have it: ginex, outre"));
  EXPECT_THAT(ErrorOf({{"strategy", "ginex"}, {"cpu-cache", "much"}}),
              HasSubstr("is not auto or a size"));
  EXPECT_EQ(SpecOf({{"strategy", "ginex"}, {"cpu-cache", "auto"}})
                .data()
                .budgets()
                .cpu_cache_rule(),
            "auto");
  EXPECT_THAT(ErrorOf({{"strategy", "gnndrive"}, {"reorder", "yes"}}),
              HasSubstr("false, true"));
  EXPECT_THAT(ErrorOf({{"strategy", "ginex"}, {"superbatch", "0"}}),
              HasSubstr("whole number from 1"));
}

TEST(TrainJobFromOptions, LeavesDefaultsToTheDaemon) {
  const v1::TrainJobSpec spec = SpecOf({});
  EXPECT_TRUE(spec.data().has_auto_());
  EXPECT_TRUE(spec.data().neighbor().fanouts().empty());
  EXPECT_EQ(spec.data().epochs(), 0);
  EXPECT_EQ(spec.trains(0).sage().hidden(), 0);
  EXPECT_EQ(spec.trains(0).adam().learning_rate(), 0);
}

TEST(TrainJobFromOptions, SeedSetsBothSeeds) {
  const v1::TrainJobSpec spec = SpecOf({{"seed", "7"}});
  EXPECT_EQ(spec.data().data_seed(), 7);
  EXPECT_EQ(spec.trains(0).model_seed(), 7);
}

TEST(TrainJobFromOptions, OneSeedAloneWinsOverSeed) {
  const v1::TrainJobSpec spec = SpecOf({{"seed", "7"}, {"model-seed", "0"}});
  EXPECT_EQ(spec.data().data_seed(), 7);
  EXPECT_EQ(spec.trains(0).model_seed(), 0);
}

TEST(TrainJobFromOptions, MapsEachSampler) {
  EXPECT_THAT(SpecOf({{"fanouts", "7,-1"}}).data().neighbor().fanouts(),
              ElementsAre(7, -1));
  const v1::DataSpec data = SpecOf({{"sampler", "subgraph"},
                                    {"fanouts", "7,-1"},
                                    {"fanout-of", "cites=2,0"}})
                                .data();
  EXPECT_THAT(data.subgraph().fanouts(), ElementsAre(7, -1));
  EXPECT_EQ(data.subgraph().fanouts_of(), "cites=2,0");
}

TEST(TrainJobFromOptions, MapsEachModel) {
  EXPECT_EQ(
      SpecOf({{"model", "sage"}, {"hidden", "8"}}).trains(0).sage().hidden(),
      8);
  EXPECT_EQ(
      SpecOf({{"model", "gcn"}, {"hidden", "8"}}).trains(0).gcn().hidden(), 8);
  const v1::TrainSpec gat =
      SpecOf({{"model", "gat"}, {"hidden", "8"}, {"heads", "2"}}).trains(0);
  EXPECT_EQ(gat.gat().hidden(), 8);
  EXPECT_EQ(gat.gat().heads(), 2);
  EXPECT_TRUE(SpecOf({{"model", "none"}, {"hidden", "8"}, {"heads", "2"}})
                  .trains(0)
                  .has_none());
}

TEST(TrainJobFromOptions, MapsEachOptimizer) {
  const Flags flags = {{"lr", "0.5"}, {"weight-decay", "0.25"}};
  const auto with = [&](const char* name) {
    Flags more = flags;
    more["optimizer"] = name;
    return SpecOf(more).trains(0);
  };
  EXPECT_EQ(with("adam").adam().learning_rate(), 0.5);
  EXPECT_EQ(with("adam").adam().weight_decay(), 0.25);
  EXPECT_EQ(with("adamw").adamw().weight_decay(), 0.25);
  EXPECT_EQ(with("sgd").sgd().learning_rate(), 0.5);
  EXPECT_FALSE(
      SpecOf({{"optimizer", "adamw"}}).trains(0).adamw().has_weight_decay());
  EXPECT_EQ(SpecOf({{"optimizer", "sgd"}, {"momentum", "0.9"}})
                .trains(0)
                .sgd()
                .momentum(),
            0.9);
}

TEST(TrainJobFromOptions, MapsEachSchedule) {
  EXPECT_TRUE(SpecOf({}).trains(0).has_constant());
  const v1::TrainSpec cosine = SpecOf({{"lr-schedule", "cosine"},
                                       {"lr-min", "0.25"},
                                       {"lr-warmup-epochs", "2"}})
                                   .trains(0);
  EXPECT_EQ(cosine.cosine().min_learning_rate(), 0.25);
  EXPECT_EQ(cosine.warmup_epochs(), 2);
  const v1::TrainSpec step = SpecOf({{"lr-schedule", "step"},
                                     {"lr-step-epochs", "3"},
                                     {"lr-gamma", "0.5"}})
                                 .trains(0);
  EXPECT_EQ(step.step().step_epochs(), 3);
  EXPECT_EQ(step.step().gamma(), 0.5);
  EXPECT_EQ(ErrorOf({{"lr-gamma", "0.5"}}),
            "--lr-gamma: not an option of schedule constant; schedule that has "
            "it: step");
}

TEST(TrainJobFromOptions, DatasetIsRequired) {
  const absl::Status status = TrainJobFromOptions({}).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("--dataset"));
}

TEST(TrainJobFromOptions, ListsWhatAChoiceMayBe) {
  EXPECT_EQ(ErrorOf({{"strategy", "ram"}}),
            "--strategy: \"ram\" is not one of memory, mmap, gnndrive, "
            "ginex, diskgnn, outre, gids, foresight, marius, auto");
  EXPECT_EQ(ErrorOf({{"model", "mlp"}}),
            "--model: \"mlp\" is not one of sage, gcn, gat, gatv2, gin, none, "
            "rgcn, rsage, rgat");
  EXPECT_EQ(ErrorOf({{"optimizer", "lion"}}),
            "--optimizer: \"lion\" is not one of adam, adamw, sgd");
}

TEST(TrainJobFromOptions, NamesNumbersThatAreNone) {
  EXPECT_EQ(ErrorOf({{"epochs", "many"}}),
            "--epochs: \"many\" is not a whole number from 1 to 100000");
  EXPECT_THAT(ErrorOf({{"epochs", "0"}}), HasSubstr("--epochs"));
  EXPECT_THAT(ErrorOf({{"epochs", "4294967296"}}), HasSubstr("--epochs"));
  EXPECT_THAT(ErrorOf({{"epochs", "2.5"}}), HasSubstr("--epochs"));
  EXPECT_THAT(ErrorOf({{"seed", "-1"}}), HasSubstr("--seed"));
  EXPECT_EQ(ErrorOf({{"lr", "0"}}), "--lr: \"0\" is not a number above 0");
  EXPECT_THAT(ErrorOf({{"lr", "nan"}}), HasSubstr("--lr"));
  EXPECT_THAT(ErrorOf({{"dropout", "inf"}}), HasSubstr("--dropout"));
  EXPECT_THAT(ErrorOf({{"weight-decay", "-1"}}), HasSubstr("at least 0"));
}

TEST(TrainJobFromOptions, NamesFanoutsThatAreNone) {
  for (const char* fanouts : {"", "10,", "0", "-2", "10;10", "3000000000"}) {
    EXPECT_THAT(ErrorOf({{"fanouts", fanouts}}),
                HasSubstr("-1 (all neighbors)"));
  }
}

TEST(TrainJobFromOptions, RefusesOptionsThatWouldChangeNothing) {
  EXPECT_EQ(
      ErrorOf({{"heads", "4"}}),
      "--heads: not an option of model sage; models that have it: gat, gatv2, "
      "rgat");
  EXPECT_THAT(ErrorOf({{"momentum", "0.9"}}),
              HasSubstr("optimizer that has it: sgd"));
}

// `train` takes the options that `job show` prints.
TEST(OptionsOfTrainJob, IsTheInverse) {
  const std::vector<Flags> jobs = {
      {{"model", "gat"},
       {"hidden", "64"},
       {"heads", "8"},
       {"cpu-cache", "123"},
       {"optimizer", "adamw"},
       {"lr", "0.1"},
       {"weight-decay", "0.3"}},
      {{"model", "gcn"},
       {"hidden", "3"},
       {"optimizer", "sgd"},
       {"lr", "0.003"},
       {"momentum", "0.9"},
       {"strategy", "mmap"},
       {"mmap-advice", "normal"}},
      {{"model", "none"},
       {"lr", "1"},
       {"strategy", "gnndrive"},
       {"cpu-cache", "123"},
       {"staging", "456"},
       {"reorder", "true"},
       {"sample-queue", "5"},
       {"train-queue", "3"},
       {"io-depth", "16"}},
      {{"model", "none"},
       {"lr", "1"},
       {"strategy", "ginex"},
       {"cpu-cache", "0"},
       {"superbatch", "9"},
       {"neighbor-cache", "77"},
       {"io-depth", "16"}},
      {{"model", "none"},
       {"lr", "1"},
       {"strategy", "diskgnn"},
       {"cpu-cache", "123"},
       {"disk-cache", "77"},
       {"disk-limit", "2.5x"},
       {"prepare-memory", "16777216"},
       {"io-depth", "16"}},
      {{"model", "none"}, {"lr", "1"}, {"cpu-cache", "auto"}},
  };
  for (Flags flags : jobs) {
    flags.insert({{"fanouts", "10,-1"},
                  {"batch-size", "5"},
                  {"trainers", "2"},
                  {"epochs", "6"},
                  {"distinct-epochs", "2"},
                  {"data-seed", "8"},
                  {"model-seed", "9"},
                  {"dropout", "0.2"},
                  {"patience", "1"},
                  {"samplers", "2"},
                  {"extractors", "3"},
                  {"train-threads", "4"},
                  {"checkpoint-every", "7"}});
    const v1::TrainJobSpec spec = SpecOf(flags);
    OptionValues values;
    for (const auto& [name, text] : OptionsOfTrainJob(spec)) {
      values[name] = {text, name};
    }
    const absl::StatusOr<v1::TrainJobSpec> again = TrainJobFromOptions(values);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->DebugString(), spec.DebugString());
  }
}

TEST(OptionsOfPrepareJob, AreThoseOfTheBatches) {
  v1::PrepareSpec spec;
  spec.mutable_data()->set_dataset("cora");
  spec.mutable_data()->mutable_diskgnn();
  spec.mutable_pipeline()->set_samplers(3);
  spec.set_training_only(true);
  const auto options = OptionsOfPrepareJob(spec);
  EXPECT_THAT(options, Contains(Pair("strategy", "diskgnn")));
  EXPECT_THAT(options, Contains(Pair("disk-limit", "none")));
  EXPECT_THAT(options, Contains(Pair("samplers", "3")));
  EXPECT_THAT(options, Contains(Pair("model", "none")));
  EXPECT_THAT(options, Not(Contains(Pair("dropout", _))));
}

TEST(MergeOptions, TheCommandLineWins) {
  const OptionValues merged = MergeOptions(
      {{"epochs", {"2", "--epochs"}}, {"seed", {"8", "--seed"}}},
      {{"epochs", {"9", "f"}}, {"data-seed", {"3", "f"}}, {"lr", {"1", "f"}}});
  EXPECT_EQ(merged.at("epochs").text, "2");
  EXPECT_EQ(merged.at("lr").text, "1");
  EXPECT_FALSE(merged.contains("data-seed"));
}

TEST(NameFlags, TurnsFieldsIntoWhatWasTyped) {
  const OptionValues values = {
      {"trainers", {"17", "--trainers"}},
      {"cpu-cache", {"4KiB", "job.yaml line 3: cpu-cache"}}};
  EXPECT_EQ(NameFlags("train.data.trainers: must be at most 16, not 17; "
                      "explain.train.data.budgets.cpu_cache_bytes: no",
                      values),
            "--trainers: must be at most 16, not 17; "
            "job.yaml line 3: cpu-cache: no");
  EXPECT_EQ(NameFlags("prepare.data.strategy: must be diskgnn", values),
            "--strategy: must be diskgnn");
  EXPECT_EQ(NameFlags("train.data.neighbor.fanouts[2]: must be", values),
            "--fanouts[2]: must be");
  EXPECT_EQ(NameFlags("it diverged; a smaller learning_rate may help.", values),
            "it diverged; a smaller --lr may help.");
  EXPECT_EQ(NameFlags("staging_bytes, or batch_size.", values),
            "--staging, or --batch-size.");
}

TEST(NameFlags, LeavesAllElseAlone) {
  for (const char* text :
       {"epochs and trainers", "/data/learning_rate/x", "node_feat.npy", "",
        "a_b.c [d] 1.5 ...", "import.name: must not"}) {
    EXPECT_EQ(NameFlags(text, {}), text);
  }
}

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

// Of options that change results, only those of machines may appear here.
TEST(ResumeOptionsTest, AreThoseThatChangeNoResultOrMayChange) {
  std::vector<std::string> names;
  for (const Flag& flag : ResumeFlags()) names.push_back(flag.name);
  EXPECT_THAT(
      names,
      UnorderedElementsAre(
          "cpu-cache", "strict-budgets", "topology", "staging", "gpu-cache",
          "sample-queue", "train-queue", "superbatch", "neighbor-cache",
          "neighbor-rank", "disk-cache", "disk-limit", "prepare-memory",
          "samplers", "sample-on", "extractors", "io-depth", "train-threads",
          "checkpoint-every", "memory-limit", "hot", "window-cache", "window",
          "merge-max", "striped", "first-epochs", "credits", "machines",
          "members", "min-machines", "rejoin-wait", "fetch-missing"));
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
