#include "engine/job/run/train_job.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/io/whole_file.h"
#include "engine/job/interface/train_job_options.h"
#include "engine/job/run/job_fixture.h"
#include "engine/store/labels.h"
#include "engine/store/manifest.h"
#include "engine/store/safetensors.h"
#include "engine/strategy/kinds.h"
#include "engine/train/metric.h"
#include "engine/train/train_step.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fixtures/graphs.h"

namespace hearth::job {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using TrainJobTest = JobTest;

// Predicts best in the second epoch, by any metric.
class Worsening final : public LinearStep {
 public:
  using LinearStep::LinearStep;

  absl::StatusOr<train::BatchResult> Train(
      absl::Span<const train::BatchView> shards,
      const train::StepPosition& position) override {
    epoch_ = position.epoch;
    return LinearStep::Train(shards, position);
  }
  absl::StatusOr<train::BatchResult> Evaluate(
      absl::Span<const train::BatchView> shards) override {
    const int64_t seeds = train::NumSeeds(shards);
    const int64_t right = epoch_ == 1 ? seeds : seeds / 2;
    return train::BatchResult{
        .num_seeds = seeds,
        .tally = {.num_predictions = seeds,
                  .num_correct = right,
                  .true_positives = right,
                  .false_negatives = seeds - right,
                  .squared_error = static_cast<double>(seeds - right)}};
  }

 private:
  uint64_t epoch_ = 0;
};

TEST_F(TrainJobTest, ReportsEveryEpochAndTheTest) {
  const auto report = Run(Options("a"));
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->epochs.size(), 4u);
  EXPECT_EQ(observer_.running, 1);
  EXPECT_EQ(observer_.epochs.size(), 4u);
  EXPECT_EQ(report->epochs[3].epoch, 4u);
  EXPECT_LT(report->epochs[3].loss, report->epochs[0].loss);
  EXPECT_EQ(report->epochs[0].training.batches, 6);
  EXPECT_EQ(report->epochs[0].validation.batches, 2);
  EXPECT_EQ(report->test.batches, 2);
  EXPECT_EQ(report->kept_epoch, 4u);
  EXPECT_EQ(report->resumes, 0u);
  EXPECT_GT(report->peak_memory_bytes, 0u);
  EXPECT_EQ(report->loss_digest.size(), 64u);
  EXPECT_TRUE(report->test_metric.has_value());
  EXPECT_TRUE(
      std::filesystem::exists(report->model_path + "/model.safetensors"));
}

TEST_F(TrainJobTest, SeedDecidesTheDigest) {
  TrainJobOptions options = Options("a");
  const auto first = Run(options);
  options.directory += "2";
  const auto second = Run(options);
  options.directory += "3";
  options.data.data_seed = 1;
  const auto third = Run(options);
  ASSERT_TRUE(first.ok() && second.ok() && third.ok());
  EXPECT_EQ(first->loss_digest, second->loss_digest);
  EXPECT_NE(first->loss_digest, third->loss_digest);
}

TEST_F(TrainJobTest, StoppedAnywhereItGoesOnAsIfUndisturbed) {
  const auto undisturbed = Run(Options("undisturbed"));
  ASSERT_TRUE(undisturbed.ok()) << undisturbed.status();
  for (int64_t batch = 1; batch < 24; batch += 4) {
    SCOPED_TRACE(batch);
    const TrainJobOptions options = Options("stopped" + std::to_string(batch));
    std::stop_source stop;
    observer_ = {};
    observer_.act_at = batch;
    observer_.act = [&] { stop.request_stop(); };
    EXPECT_TRUE(absl::IsCancelled(Run(options, stop.get_token()).status()));
    observer_ = {};
    const auto report = Run(options);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->loss_digest, undisturbed->loss_digest);
    EXPECT_EQ(report->test_metric, undisturbed->test_metric);
    EXPECT_EQ(report->resumes, 1u);
    EXPECT_EQ(observer_.training_batches, 24 - batch);
    ASSERT_EQ(report->epochs.size(), 4u);
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(report->epochs[i].loss, undisturbed->epochs[i].loss);
      EXPECT_EQ(report->epochs[i].training.batches, 6);
      EXPECT_EQ(report->epochs[i].training.rows_needed,
                undisturbed->epochs[i].training.rows_needed);
    }
  }
}

// The second batch of an epoch has 4 nodes, fewer than there are trainers.
TEST_F(TrainJobTest, TheModelKnowsHowManyStepsThereAre) {
  ASSERT_TRUE(Run(Options("job")).ok());
  EXPECT_EQ(shape_.epoch_steps, 6);
  EXPECT_EQ(shape_.epochs, 4);
}

TEST_F(TrainJobTest, SeveralTrainersShareEachBatch) {
  TrainJobOptions options = Options("one");
  options.data.batch_size = 356;
  const auto one = Run(options);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(shape_.trainers, 1);
  options.data.trainers = 5;
  options.directory = root_ + "/five";
  const auto five = Run(options);
  ASSERT_TRUE(five.ok()) << five.status();
  EXPECT_EQ(shape_.trainers, 5);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(five->epochs[i].loss, one->epochs[i].loss, 1e-5);
    EXPECT_NEAR(*five->epochs[i].valid_metric, *one->epochs[i].valid_metric,
                0.02);
    EXPECT_EQ(five->epochs[i].training.batches, 2);
    EXPECT_EQ(five->epochs[i].validation.batches, 1);
  }
}

TEST_F(TrainJobTest, SeveralTrainersGoOnAsIfUndisturbed) {
  TrainJobOptions options = Options("undisturbed");
  options.data.trainers = 3;
  options.checkpoint_every = 2;
  const auto undisturbed = Run(options);
  ASSERT_TRUE(undisturbed.ok()) << undisturbed.status();
  for (const int64_t batch : {1, 4, 6, 11}) {
    SCOPED_TRACE(batch);
    options.directory = root_ + "/stopped" + std::to_string(batch);
    std::stop_source stop;
    observer_ = {};
    observer_.act_at = batch;
    observer_.act = [&] { stop.request_stop(); };
    EXPECT_TRUE(absl::IsCancelled(Run(options, stop.get_token()).status()));
    observer_ = {};
    const auto report = Run(options);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->loss_digest, undisturbed->loss_digest);
    EXPECT_EQ(report->test_metric, undisturbed->test_metric);
    EXPECT_EQ(observer_.training_batches, 24 - batch);
  }
}

TEST_F(TrainJobTest, StoppedInValidationItDoesNotTrainTheEpochAgain) {
  const auto undisturbed = Run(Options("undisturbed"));
  const TrainJobOptions options = Options("stopped");
  std::stop_source stop;
  observer_ = {};
  observer_.act_in_validation = true;
  observer_.act = [&] { stop.request_stop(); };
  EXPECT_TRUE(absl::IsCancelled(Run(options, stop.get_token()).status()));
  EXPECT_EQ(observer_.training_batches, 6);
  observer_ = {};
  const auto report = Run(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(observer_.training_batches, 18);
  EXPECT_EQ(observer_.epochs.size(), 4u);
  EXPECT_EQ(report->loss_digest, undisturbed->loss_digest);
}

// A kill leaves the last checkpoint; later batches are trained again, but count
// once.
TEST_F(TrainJobTest, KilledAfterACheckpointItRepeatsOnlyWhatCameAfter) {
  const auto undisturbed = Run(Options("undisturbed"));
  TrainJobOptions options = Options("killed");
  options.checkpoint_every = 4;
  observer_ = {};
  observer_.act_at = 11;  // Epoch 2, batch 5: the checkpoint is at batch 4.
  const std::string saved = root_ + "/saved";
  observer_.act = [&] {
    std::filesystem::copy(options.directory, saved,
                          std::filesystem::copy_options::recursive);
  };
  ASSERT_TRUE(Run(options).ok());
  options.directory = saved;
  observer_ = {};
  const auto report = Run(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(observer_.training_batches, 24 - 10);
  EXPECT_EQ(report->loss_digest, undisturbed->loss_digest);
  ASSERT_EQ(report->epochs.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(report->epochs[i].training.batches, 6);
    EXPECT_EQ(report->epochs[i].training.rows_needed,
              undisturbed->epochs[i].training.rows_needed);
    EXPECT_EQ(report->epochs[i].training.bytes_needed,
              undisturbed->epochs[i].training.bytes_needed);
  }
}

// Bytes of the larger of both checkpoints.
uint64_t CheckpointBytes(const std::string& directory) {
  return std::max(
      std::filesystem::file_size(directory + "/checkpoint.safetensors"),
      std::filesystem::file_size(directory + "/checkpoint-odd.safetensors"));
}

TEST_F(TrainJobTest, AnyNumberOfEpochsHasCheckpointsOfOneSize) {
  Import({.num_nodes = 60});
  TrainJobOptions options = Options("few");
  options.data.batch_size = 1024;
  options.data.distinct_epochs = 1;
  ASSERT_TRUE(Run(options).ok());
  const uint64_t bytes = CheckpointBytes(options.directory);
  options = Options("many");
  options.data.batch_size = 1024;
  options.data.distinct_epochs = 1;
  options.data.epochs = 300;
  observer_ = {};
  const auto report = Run(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->epochs.size(), 300u);
  EXPECT_LT(CheckpointBytes(options.directory), bytes + 256);
}

// Damages the newest checkpoint, then both.
TEST_F(TrainJobTest, DamagedCheckpointsGiveTheSameResults) {
  const auto undisturbed = Run(Options("undisturbed"));
  TrainJobOptions options = Options("damaged");
  options.checkpoint_every = 2;
  std::stop_source stop;
  observer_ = {};
  observer_.act_at = 17;  // Epoch 3, batch 5: generation 9; 8 is of batch 4.
  observer_.act = [&] { stop.request_stop(); };
  EXPECT_TRUE(absl::IsCancelled(Run(options, stop.get_token()).status()));
  const std::string copy = root_ + "/copy";
  std::filesystem::copy(options.directory, copy,
                        std::filesystem::copy_options::recursive);

  const std::string odd = options.directory + "/checkpoint-odd.safetensors";
  const std::string even = options.directory + "/checkpoint.safetensors";
  std::filesystem::resize_file(odd, std::filesystem::file_size(odd) - 1);
  observer_ = {};
  auto report = Run(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->loss_digest, undisturbed->loss_digest);
  EXPECT_EQ(observer_.training_batches, 24 - 16);
  ASSERT_EQ(observer_.warnings.size(), 1u);
  EXPECT_NE(observer_.warnings[0].find(odd), std::string::npos);

  std::filesystem::remove_all(options.directory);
  std::filesystem::copy(copy, options.directory,
                        std::filesystem::copy_options::recursive);
  std::filesystem::resize_file(odd, 100);
  std::filesystem::resize_file(even, 100);
  observer_ = {};
  report = Run(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->loss_digest, undisturbed->loss_digest);
  EXPECT_EQ(observer_.training_batches, 24);
  ASSERT_EQ(observer_.warnings.size(), 3u);
  EXPECT_NE(observer_.warnings[2].find("from the start"), std::string::npos);
}

TEST_F(TrainJobTest, AnEpochThatWasNotKeptIsReportedAgain) {
  const auto undisturbed = Run(Options("undisturbed"));
  const TrainJobOptions options = Options("again");
  observer_ = {};
  observer_.on_epoch = [](const EpochReport& epoch) {
    return epoch.epoch == 2 ? absl::ResourceExhaustedError("disk full")
                            : absl::OkStatus();
  };
  EXPECT_TRUE(absl::IsResourceExhausted(Run(options).status()));
  observer_ = {};
  const auto report = Run(options);
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(observer_.epochs.size(), 3u);
  EXPECT_EQ(observer_.epochs[0].epoch, 2u);
  EXPECT_EQ(observer_.training_batches, 12);
  EXPECT_EQ(report->loss_digest, undisturbed->loss_digest);
}

TEST_F(TrainJobTest, ACheckpointOfAnotherDatasetIsRefused) {
  const TrainJobOptions options = Options("job");
  ASSERT_TRUE(Run(options).ok());
  EditManifest([](store::Manifest& manifest) {
    manifest.fingerprint = "0123456789abcdef";
  });
  const auto report = Run(options);
  EXPECT_EQ(report.status().code(), absl::StatusCode::kFailedPrecondition)
      << report.status();
}

// Names and modification times of the files in a folder.
std::map<std::string, std::filesystem::file_time_type> FilesIn(
    const std::string& folder) {
  std::map<std::string, std::filesystem::file_time_type> files;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(folder)) {
    files[entry.path()] = entry.last_write_time();
  }
  return files;
}

TEST_F(TrainJobTest, ATestAloneHasTheFiguresOfTheWholeJob) {
  const std::vector<strategy::StrategyOptions> strategies = {
      strategy::MemoryOptions{},
      strategy::MmapOptions{},
      strategy::GnndriveOptions{},
      strategy::GinexOptions{.cpu_cache_bytes = 40000},
      strategy::DiskgnnOptions{},
      strategy::GidsOptions{},
  };
  for (const strategy::StrategyOptions& strategy : strategies) {
    const std::string name(strategy::Name(strategy));
    SCOPED_TRACE(name);
    TrainJobOptions options = Options(name + "-whole");
    options.data.strategy = strategy;
    const auto whole = Run(options);
    ASSERT_TRUE(whole.ok()) << whole.status();
    ASSERT_TRUE(whole->test_metric.has_value());

    options.directory = root_ + "/" + name + "-parts";
    options.part = TrainPart::kTraining;
    observer_ = {};
    const auto training = Run(options);
    ASSERT_TRUE(training.ok()) << training.status();
    EXPECT_FALSE(training->test_metric.has_value());
    EXPECT_EQ(training->test.batches, 0);
    EXPECT_EQ(observer_.phases.count("testing"), 0u);
    EXPECT_EQ(training->loss_digest, whole->loss_digest);
    EXPECT_TRUE(
        std::filesystem::exists(training->model_path + "/model.safetensors"));

    const auto before = FilesIn(options.directory);
    observer_ = {};
    const auto test = Run(ForTest(options));
    ASSERT_TRUE(test.ok()) << test.status();
    EXPECT_EQ(test->test_metric, whole->test_metric);
    EXPECT_EQ(test->test.batches, whole->test.batches);
    EXPECT_EQ(test->test.rows_needed, whole->test.rows_needed);
    EXPECT_EQ(test->metric, whole->metric);
    EXPECT_EQ(test->kept_epoch, whole->kept_epoch);
    EXPECT_EQ(test->resumes, 0u);
    EXPECT_EQ(observer_.running, 1);
    EXPECT_EQ(observer_.training_batches, 0);
    EXPECT_EQ(observer_.epochs.size(), 0u);
    EXPECT_EQ(FilesIn(options.directory), before);
  }
}

TEST_F(TrainJobTest, ATestAloneNeedsNoHistory) {
  TrainJobOptions options = Options("job");
  options.data.history = HistoryOptions{.cache_bytes = 1 << 20};
  const auto whole = Run(options);
  ASSERT_TRUE(whole.ok()) << whole.status();
  const auto test = Run(ForTest(options));
  ASSERT_TRUE(test.ok()) << test.status();
  EXPECT_EQ(test->test_metric, whole->test_metric);
  EXPECT_FALSE(test->history.has_value());
}

TEST_F(TrainJobTest, ATestThatIsStoppedWritesNothing) {
  const TrainJobOptions options = Options("job");
  const auto whole = Run(options);
  ASSERT_TRUE(whole.ok()) << whole.status();
  const auto before = FilesIn(options.directory);
  std::stop_source stop;
  observer_ = {};
  observer_.act_in_test = true;
  observer_.act = [&] { stop.request_stop(); };
  EXPECT_TRUE(
      absl::IsCancelled(Run(ForTest(options), stop.get_token()).status()));
  EXPECT_EQ(FilesIn(options.directory), before);
  observer_ = {};
  const auto test = Run(ForTest(options));
  ASSERT_TRUE(test.ok()) << test.status();
  EXPECT_EQ(test->test_metric, whole->test_metric);
}

TEST_F(TrainJobTest, ATestAloneNeedsTheEndOfTraining) {
  const TrainJobOptions options = Options("job");
  auto test = Run(ForTest(options));
  EXPECT_TRUE(absl::IsFailedPrecondition(test.status())) << test.status();
  EXPECT_FALSE(std::filesystem::exists(options.directory));
  std::stop_source stop;
  observer_.act_at = 8;
  observer_.act = [&] { stop.request_stop(); };
  EXPECT_TRUE(absl::IsCancelled(Run(options, stop.get_token()).status()));
  test = Run(ForTest(options));
  EXPECT_TRUE(absl::IsFailedPrecondition(test.status())) << test.status();
  EXPECT_THAT(std::string(test.status().message()),
              HasSubstr("epoch 2, batch 2"));
}

TEST_F(TrainJobTest, CheckpointsAreReportedAsDurable) {
  TrainJobOptions options = Options("job");
  options.checkpoint_every = 3;
  ASSERT_TRUE(Run(options).ok());
  EXPECT_EQ(observer_.durable, 8);
}

// Lower errors are better, and higher shares.
TEST_F(TrainJobTest, PatienceKeepsTheBestEpoch) {
  new_train_step_ = [](const train::TrainOptions&,
                       const train::ModelShape& shape)
      -> absl::StatusOr<std::unique_ptr<train::TrainStep>> {
    return std::make_unique<Worsening>(shape);
  };
  for (const auto kind :
       {store::LabelKind::kClasses, store::LabelKind::kMultiLabel,
        store::LabelKind::kTargets}) {
    Import({.label_kind = kind});
    TrainJobOptions options = Options(store::Name(kind));
    options.data.epochs = 50;
    options.patience = 3;
    const auto report = Run(options);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->epochs.size(), 5u) << store::Name(kind);
    EXPECT_EQ(report->kept_epoch, 2u) << store::Name(kind);
  }
}

TEST_F(TrainJobTest, DivergenceFailsTheJob) {
  class Diverging final : public train::TrainStep {
   public:
    absl::StatusOr<train::BatchResult> Train(
        absl::Span<const train::BatchView> shards,
        const train::StepPosition& position) override {
      const float loss = position.batch == 2 ? NAN : 1.0f;
      return train::BatchResult{.loss = loss,
                                .num_seeds = train::NumSeeds(shards)};
    }
    absl::StatusOr<train::BatchResult> Evaluate(
        absl::Span<const train::BatchView>) override {
      return train::BatchResult{};
    }
    absl::StatusOr<store::TensorMap> Save() override {
      return store::TensorMap{};
    }
    absl::Status Load(const store::TensorMap&) override {
      return absl::OkStatus();
    }
    absl::StatusOr<store::SafeTensors> Export() override {
      return store::SafeTensors{};
    }
  };
  new_train_step_ = [](const train::TrainOptions&, const train::ModelShape&)
      -> absl::StatusOr<std::unique_ptr<train::TrainStep>> {
    return std::make_unique<Diverging>();
  };
  const auto report = Run(Options("a"));
  EXPECT_EQ(report.status().code(), absl::StatusCode::kAborted);
  EXPECT_NE(report.status().message().find("epoch 1, batch 2"),
            absl::string_view::npos)
      << report.status();
}

TEST_F(TrainJobTest, DatasetsThatCannotBeTrainedOnSayWhy) {
  const auto expect_refused = [&](absl::StatusCode code,
                                  const std::string& what) {
    const auto report = Run(Options("refused"));
    EXPECT_EQ(report.status().code(), code) << report.status();
    EXPECT_NE(report.status().message().find(what), absl::string_view::npos)
        << report.status();
    EXPECT_EQ(observer_.running, 0);
  };
  EditManifest([](store::Manifest& manifest) {
    manifest.node_types.emplace_back();
    manifest.node_types[1].name = "author";
    manifest.node_types[1].num_nodes = 1;
  });
  expect_refused(absl::StatusCode::kFailedPrecondition,
                 "features of nodes of type \"author\"");
  EditManifest([](store::Manifest& manifest) {
    manifest.node_types.pop_back();
    manifest.node_types[0].labels = {};
    manifest.node_types[0].label_width = 0;
  });
  expect_refused(absl::StatusCode::kFailedPrecondition, "has no labels");
}

TEST_F(TrainJobTest, UnlabeledNodesAreLeftOut) {
  const auto all = Run(Options("all"));
  ASSERT_TRUE(all.ok()) << all.status();
  Import({.unlabeled = 100});
  observer_ = {};
  const auto some = Run(Options("some"));
  ASSERT_TRUE(some.ok()) << some.status();
  // Each part lost its share of the nodes 0 to 99.
  EXPECT_THAT(observer_.warnings,
              ElementsAre("60 of 360 training nodes have no label: left out",
                          "20 of 120 validation nodes have no label: left out",
                          "20 of 120 test nodes have no label: left out"));
  EXPECT_EQ(some->epochs[0].training.batches, 5);
  EXPECT_NE(some->loss_digest, all->loss_digest);
  Import({.unlabeled = 599});
  EXPECT_EQ(Run(Options("few")).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(TrainJobTest, PartsThatAreNotThereAreLeftOut) {
  const auto all = Run(Options("all"));
  ASSERT_TRUE(all.ok()) << all.status();
  Import({.only_training = true});
  observer_ = {};
  TrainJobOptions options = Options("training");
  const auto report = Run(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(observer_.warnings,
              ElementsAre(HasSubstr("no validation nodes with labels"),
                          HasSubstr("no test nodes with labels")));
  EXPECT_FALSE(report->test_metric.has_value());
  for (const EpochReport& epoch : report->epochs) {
    EXPECT_FALSE(epoch.valid_metric.has_value());
  }
  EXPECT_EQ(report->loss_digest, all->loss_digest);

  options.directory += "2";
  options.part = TrainPart::kTraining;
  observer_ = {};
  ASSERT_TRUE(Run(options).ok());
  EXPECT_THAT(observer_.warnings,
              ElementsAre(HasSubstr("no validation nodes with labels")));
  options.directory += "3";
  options.patience = 2;
  const absl::Status status = Run(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("has no validation nodes with labels"));
}

TEST_F(TrainJobTest, EachKindOfLabelsHasItsMetric) {
  for (const auto kind :
       {store::LabelKind::kClasses, store::LabelKind::kMultiLabel,
        store::LabelKind::kTargets}) {
    Import({.label_kind = kind});
    const auto report = Run(Options(store::Name(kind)));
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->metric, train::MetricFor(kind));
    EXPECT_EQ(report->epochs[0].metric, train::MetricFor(kind));
    EXPECT_EQ(shape_.label_kind, kind);
    EXPECT_EQ(shape_.label_width, 4);
  }
}

// Ranks all nodes correctly in the second epoch; in other epochs predicts one
// class.
class Ranking final : public LinearStep {
 public:
  using LinearStep::LinearStep;

  absl::StatusOr<train::BatchResult> Train(
      absl::Span<const train::BatchView> shards,
      const train::StepPosition& position) override {
    epoch_ = position.epoch;
    return LinearStep::Train(shards, position);
  }
  absl::StatusOr<train::BatchResult> Evaluate(
      absl::Span<const train::BatchView> shards) override {
    train::BatchResult result = {.num_seeds = train::NumSeeds(shards)};
    result.tally.ranking.columns = 4;
    for (int64_t i = 0; i < result.num_seeds * 4; ++i) {
      const bool is_positive = epoch_ != 1 || i % 3 == 0;
      result.tally.ranking.scores.push_back(
          {is_positive ? 1.f : 0.f, is_positive});
    }
    return result;
  }

 private:
  uint64_t epoch_ = 0;
};

TEST_F(TrainJobTest, AMetricThatIsNotDefinedIsNeverTheBest) {
  new_train_step_ = [](const train::TrainOptions&,
                       const train::ModelShape& shape)
      -> absl::StatusOr<std::unique_ptr<train::TrainStep>> {
    return std::make_unique<Ranking>(shape);
  };
  TrainJobOptions options = Options("a");
  options.train.metric = train::Metric::kAveragePrecision;
  options.patience = 3;
  const auto report = Run(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->metric, train::Metric::kAveragePrecision);
  ASSERT_EQ(report->epochs.size(), 4);
  EXPECT_EQ(report->epochs[1].valid_metric, 1);
  for (const size_t epoch : {0, 2, 3}) {
    ASSERT_TRUE(report->epochs[epoch].valid_metric.has_value());
    EXPECT_TRUE(std::isnan(*report->epochs[epoch].valid_metric));
  }
  EXPECT_EQ(report->kept_epoch, 2u);
  EXPECT_TRUE(std::isnan(*report->test_metric));
  // The warning comes once for each phase.
  ASSERT_EQ(observer_.warnings.size(), 2);
  EXPECT_THAT(observer_.warnings[0],
              HasSubstr("validating: average_precision is not defined"));
  EXPECT_THAT(observer_.warnings[1], HasSubstr("testing: "));
}

TEST_F(TrainJobTest, ReservesTheScoresThatAreRanked) {
  TrainJobOptions options = Options("a");
  const auto counted = Run(options);
  options = Options("b");
  options.train.metric = train::Metric::kRocAuc;
  const auto ranked = Run(options);
  ASSERT_TRUE(counted.ok() && ranked.ok());
  // 120 nodes of 4 classes, and one class in order.
  EXPECT_EQ(ranked->memory.TotalBytes(),
            counted->memory.TotalBytes() + 120 * (4 + 1) * 8);
  EXPECT_EQ(ranked->loss_digest, counted->loss_digest);
}

TEST_F(TrainJobTest, ModelsLearnHowManyNodesEachClassHas) {
  Import({.unlabeled = 100});
  ASSERT_TRUE(Run(Options("a")).ok());
  ASSERT_EQ(shape_.class_counts.size(), 4);
  int64_t nodes = 0;
  for (const int64_t count : shape_.class_counts) {
    EXPECT_GT(count, 0);
    nodes += count;
  }
  EXPECT_EQ(nodes, 300);
  Import({.label_kind = store::LabelKind::kMultiLabel});
  ASSERT_TRUE(Run(Options("b")).ok());
  EXPECT_TRUE(shape_.class_counts.empty());
}

TEST_F(TrainJobTest, BytesReadAreKnownOnlyAlone) {
  TrainJobOptions options = Options("alone");
  options.data.strategy = strategy::MmapOptions{};
  const auto alone = Run(options);
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_TRUE(alone->epochs[0].training.bytes_read.has_value());

  const RunningJobs::Job other(running_jobs_);
  options.directory += "2";
  const auto beside = Run(options);
  ASSERT_TRUE(beside.ok()) << beside.status();
  EXPECT_FALSE(beside->epochs[0].training.bytes_read.has_value());
}

TEST_F(TrainJobTest, ASecondJobFindsTheStrategyWarm) {
  for (const strategy::StrategyOptions& strategy :
       {strategy::StrategyOptions{strategy::MemoryOptions{}},
        strategy::StrategyOptions{strategy::MmapOptions{}},
        strategy::StrategyOptions{
            strategy::GnndriveOptions{.cpu_cache_bytes = 4096}},
        strategy::StrategyOptions{
            strategy::GinexOptions{.cpu_cache_bytes = 8192}},
        strategy::StrategyOptions{
            strategy::DiskgnnOptions{.cpu_cache_bytes = 8192}}}) {
    const std::string name = strategy::Name(strategy);
    TrainJobOptions options = Options(name);
    options.data.strategy = strategy;
    const auto cold = Run(options);
    ASSERT_TRUE(cold.ok()) << cold.status();
    EXPECT_FALSE(cold->warm_start) << name;
    EXPECT_GT(memory_->warm_bytes(), 0u) << name;
    options.directory += "2";
    const auto warm = Run(options);
    ASSERT_TRUE(warm.ok()) << warm.status();
    EXPECT_TRUE(warm->warm_start) << name;
    EXPECT_EQ(warm->loss_digest, cold->loss_digest) << name;
    EXPECT_EQ(memory_->reserved_bytes(), 0u) << name;
    // Other batches need other memory.
    options.directory += "3";
    options.data.batch_size = 50;
    const auto other = Run(options);
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_FALSE(other->warm_start) << name;
  }
}

TEST_F(TrainJobTest, NothingIsKeptOfAJobThatFailed) {
  new_train_step_ = [](const train::TrainOptions&, const train::ModelShape&)
      -> absl::StatusOr<std::unique_ptr<train::TrainStep>> {
    return absl::InternalError("no model");
  };
  EXPECT_FALSE(Run(Options("a")).ok());
  EXPECT_EQ(memory_->warm_bytes(), 0u);
  EXPECT_EQ(memory_->reserved_bytes(), 0u);
}

TEST_F(TrainJobTest, WhatDoesNotFitIsRefusedWithTheNumbers) {
  warm_strategies_.reset();
  memory_ = std::make_unique<MemoryLedger>(uint64_t{8} << 20);
  warm_strategies_ = std::make_unique<WarmStrategies>(
      io::FileSystem::Posix(), *memory_, root_ + "/scratch");
  const absl::Status refused = Run(Options("a")).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("runtime 24.0 MiB"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("8.0 MiB"));
}

// A model of a given size, which counts the calls of its factory, and calls of
// its own before the memory was reserved.
class WideStep final : public LinearStep {
 public:
  struct Calls {
    int all = 0;
    int before_reserved = 0;
  };

  WideStep(const train::ModelShape& shape, uint64_t bytes,
           const MemoryLedger& memory, Calls& calls)
      : LinearStep(shape), bytes_(bytes), memory_(memory), calls_(calls) {}

  absl::StatusOr<train::BatchResult> Train(
      absl::Span<const train::BatchView> shards,
      const train::StepPosition& position) override {
    Count();
    return LinearStep::Train(shards, position);
  }
  absl::Status Load(const store::TensorMap& state) override {
    Count();
    return LinearStep::Load(state);
  }
  uint64_t MemoryBytes(const sample::BatchShape& /*shape*/) const override {
    return bytes_;
  }
  uint64_t KeptBytes() const override { return bytes_ / 4 * 3; }
  uint64_t ParameterBytes() const override { return bytes_ / 16; }

 private:
  void Count() {
    ++calls_.all;
    if (memory_.reserved_bytes() < bytes_) ++calls_.before_reserved;
  }

  const uint64_t bytes_;
  const MemoryLedger& memory_;
  Calls& calls_;
};

TEST_F(TrainJobTest, AModelIsMadeOnceItsMemoryIsReserved) {
  WideStep::Calls calls;
  uint64_t bytes = uint64_t{1} << 20;
  new_train_step_ = [&](const train::TrainOptions&,
                        const train::ModelShape& shape)
      -> absl::StatusOr<std::unique_ptr<train::TrainStep>> {
    return std::make_unique<WideStep>(shape, bytes, *memory_, calls);
  };
  ASSERT_TRUE(Run(Options("a")).ok());
  EXPECT_GT(calls.all, 0);
  const int trained = calls.all;
  // From the checkpoint of the end of training.
  ASSERT_TRUE(Run(Options("a")).ok());
  EXPECT_EQ(calls.all, trained + 1);
  EXPECT_EQ(calls.before_reserved, 0);
  bytes = uint64_t{1} << 45;
  calls = {};
  for (const std::string name : {"a", "b"}) {
    const absl::Status refused = Run(Options(name)).status();
    EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()),
                HasSubstr("parameters take 2.0 TiB, with gradients, optimizer "
                          "state and copies for checkpoints 24.0 TiB"));
    EXPECT_THAT(std::string(refused.message()), HasSubstr("--hidden"));
  }
  EXPECT_EQ(calls.all, 0);
}

TEST_F(TrainJobTest, TellsWhatItMayTakeAndWhenItBegan) {
  const auto report = Run(Options("a"));
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_GT(report->memory.TotalBytes(), 0u);
  EXPECT_GE(report->memory_bound_bytes, report->peak_memory_bytes);
  ASSERT_TRUE(report->first_batch_seconds.has_value());
  EXPECT_GE(*report->first_batch_seconds, 0);
}

}  // namespace
}  // namespace hearth::job
