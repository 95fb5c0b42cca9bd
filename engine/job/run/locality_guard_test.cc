#include "engine/job/run/locality_guard.h"

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/io/whole_file.h"
#include "engine/job/interface/train_job_options.h"
#include "engine/job/run/job_fixture.h"
#include "engine/store/labels.h"
#include "engine/store/manifest.h"
#include "engine/store/safetensors.h"
#include "engine/strategy/kinds.h"
#include "engine/train/model_options.h"
#include "engine/train/train_step.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::job {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(IsBelowPilotTest, IsMoreThanHalfAPoint) {
  EXPECT_FALSE(IsBelowPilot(0.8, 0.7));
  EXPECT_FALSE(IsBelowPilot(0.7, 0.7));
  EXPECT_FALSE(IsBelowPilot(0.6951, 0.7));
  EXPECT_TRUE(IsBelowPilot(0.6949, 0.7));
  EXPECT_TRUE(IsBelowPilot(kNan, 0.7));
  EXPECT_FALSE(IsBelowPilot(0.7, kNan));
  EXPECT_FALSE(IsBelowPilot(kNan, kNan));
}

// A model whose predictions are right as often as the first seed that it was
// trained on is large, so that they differ between orders; its losses depend on
// the seeds and all earlier ones.
class SeedStep final : public train::TrainStep {
 public:
  absl::StatusOr<train::BatchResult> Train(
      absl::Span<const train::BatchView> shards,
      const train::StepPosition& position) override {
    const auto seed =
        static_cast<float>(shards[0].sample.input_nodes[0]) / 1000;
    weight_ = 0.9f * weight_ + 0.1f * seed;
    return train::BatchResult{
        .loss = weight_ + 0.01f * static_cast<float>(position.batch),
        .num_seeds = train::NumSeeds(shards)};
  }

  absl::StatusOr<train::BatchResult> Evaluate(
      absl::Span<const train::BatchView> shards) override {
    const int64_t seeds = train::NumSeeds(shards);
    return train::BatchResult{
        .loss = weight_,
        .num_seeds = seeds,
        .tally = {.num_predictions = seeds,
                  .num_correct = static_cast<int64_t>(
                      weight_ * static_cast<float>(seeds))}};
  }

  absl::StatusOr<store::TensorMap> Save() override {
    store::Tensor tensor;
    tensor.shape = {1};
    tensor.data.resize(sizeof(weight_));
    std::memcpy(tensor.data.data(), &weight_, sizeof(weight_));
    return store::TensorMap{{"model.weight", tensor}};
  }

  absl::Status Load(const store::TensorMap& state) override {
    std::memcpy(&weight_, state.at("model.weight").data.data(),
                sizeof(weight_));
    return absl::OkStatus();
  }

  absl::StatusOr<store::SafeTensors> Export() override {
    store::SafeTensors model;
    model.tensors = *Save();
    model.metadata["config"] = "{}";
    return model;
  }

 private:
  float weight_ = 0.5f;
};

// Jobs have 4 epochs of 6 batches; orders are compared after two.
class LocalityGuardTest : public JobTest {
 protected:
  void SetUp() override {
    JobTest::SetUp();
    new_train_step_ = [](const train::TrainOptions&, const train::ModelShape&)
        -> absl::StatusOr<std::unique_ptr<train::TrainStep>> {
      return std::make_unique<SeedStep>();
    };
  }

  TrainJobOptions InLocality(const std::string& directory,
                             uint64_t data_seed) const {
    TrainJobOptions options = Options(directory);
    options.train.model = train::SageOptions{.hidden = 1};
    options.data.data_seed = data_seed;
    options.data.locality_order = true;
    return options;
  }

  // A data seed with which a job reverts, or does not.
  uint64_t SeedThat(bool reverts) {
    for (uint64_t seed = 1; seed < 50; ++seed) {
      const auto report = Run(InLocality("seed" + std::to_string(seed), seed));
      EXPECT_TRUE(report.ok()) << report.status();
      if (!report.ok() || report->locality->reverted == reverts) return seed;
    }
    ADD_FAILURE() << "no such seed";
    return 0;
  }

  // Runs the job to its end after an interrupted run, and compares the results.
  void ExpectTheSame(const TrainJobOptions& options,
                     const WholeReport& expected) {
    observer_ = {};
    const auto report = Run(options);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->loss_digest, expected.loss_digest);
    EXPECT_EQ(report->test_metric, expected.test_metric);
    EXPECT_EQ(report->locality, expected.locality);
  }
};

TEST_F(LocalityGuardTest, KeepsTheOrderOfAPartition) {
  const uint64_t seed = SeedThat(/*reverts=*/false);
  observer_ = {};
  const auto report = Run(InLocality("kept", seed));
  ASSERT_TRUE(report.ok()) << report.status();
  const LocalityChoice& choice = *report->locality;
  EXPECT_GE(choice.macro_batch_parts, 1);
  EXPECT_LE(choice.macro_batch_parts, choice.parts);
  EXPECT_EQ(*choice.valid_metric, report->epochs[1].valid_metric);
  EXPECT_EQ(choice.rows_needed, report->epochs[1].training.rows_needed);
  EXPECT_TRUE(report->partition.has_value());
  EXPECT_EQ(report->resumes, 0u);
  EXPECT_EQ(observer_.running, 1);
  EXPECT_EQ(observer_.epochs.size(), 4u);
  EXPECT_EQ(observer_.comparing_batches, 12);
  EXPECT_EQ(observer_.training_batches, 24);
  EXPECT_THAT(observer_.log, HasSubstr("in shuffled order: epoch 2: loss "));
  EXPECT_THAT(observer_.log, HasSubstr("the order stays"));
  EXPECT_EQ(memory_->reserved_bytes(), 0u);

  TrainJobOptions parted = InLocality("parted", seed);
  parted.data.locality_order = false;
  parted.data.partition_order =
      PartitionOrder{.macro_batch_parts = choice.macro_batch_parts};
  const auto by_parts = Run(parted);
  ASSERT_TRUE(by_parts.ok()) << by_parts.status();
  EXPECT_EQ(report->loss_digest, by_parts->loss_digest);
  EXPECT_EQ(report->test_metric, by_parts->test_metric);

  TrainJobOptions shuffled = InLocality("shuffled", seed);
  shuffled.data.locality_order = false;
  const auto pilot = Run(shuffled);
  ASSERT_TRUE(pilot.ok()) << pilot.status();
  EXPECT_EQ(*choice.shuffled_valid_metric, pilot->epochs[1].valid_metric);
  EXPECT_EQ(choice.shuffled_rows_needed, pilot->epochs[1].training.rows_needed);
}

TEST_F(LocalityGuardTest, RevertsWhereThePilotLearnsMore) {
  const uint64_t seed = SeedThat(/*reverts=*/true);
  observer_ = {};
  const auto report = Run(InLocality("reverted", seed));
  ASSERT_TRUE(report.ok()) << report.status();
  const LocalityChoice& choice = *report->locality;
  EXPECT_LT(*choice.valid_metric, *choice.shuffled_valid_metric - 0.005);
  EXPECT_THAT(observer_.log, HasSubstr("seeds are shuffled from now on"));
  EXPECT_EQ(report->resumes, 0u);
  EXPECT_EQ(observer_.epochs.size(), 4u);

  TrainJobOptions parted = InLocality("parted", seed);
  parted.data.locality_order = false;
  parted.data.partition_order =
      PartitionOrder{.macro_batch_parts = choice.macro_batch_parts};
  const auto by_parts = Run(parted);
  TrainJobOptions random = InLocality("shuffled", seed);
  random.data.locality_order = false;
  const auto shuffled = Run(random);
  ASSERT_TRUE(by_parts.ok() && shuffled.ok());
  for (size_t i = 0; i < 4; ++i) {
    const WholeReport& expected = i < 2 ? *by_parts : *shuffled;
    EXPECT_EQ(report->epochs[i].training.rows_needed,
              expected.epochs[i].training.rows_needed)
        << i;
  }
}

TEST_F(LocalityGuardTest, StoppedAnywhereItGoesOnAsIfUndisturbed) {
  for (const bool reverts : {false, true}) {
    const uint64_t seed = SeedThat(reverts);
    const auto expected = Run(InLocality("whole", seed));
    ASSERT_TRUE(expected.ok()) << expected.status();
    // Of the pilot, and of the job's own batches.
    for (const int64_t batch : {1, 6, 12, 13, 18, 23, 24, 25, 30, 36}) {
      SCOPED_TRACE(batch);
      const TrainJobOptions options = InLocality(
          (reverts ? "revert" : "keep") + std::to_string(batch), seed);
      std::stop_source stop;
      observer_ = {};
      if (batch <= 12) {
        observer_.act_at_comparing = batch;
      } else {
        observer_.act_at = batch - 12;
      }
      observer_.act = [&stop] { stop.request_stop(); };
      const auto stopped = Run(options, stop.get_token());
      ASSERT_TRUE(absl::IsCancelled(stopped.status())) << stopped.status();
      ExpectTheSame(options, *expected);
      EXPECT_EQ(observer_.comparing_batches, batch < 12 ? 12 - batch : 0);
    }
    std::filesystem::remove_all(root_ + "/whole");
  }
}

// A kill leaves the folder as it was at some moment.
TEST_F(LocalityGuardTest, KilledAnywhereItRepeatsItsDecision) {
  for (const bool reverts : {false, true}) {
    const uint64_t seed = SeedThat(reverts);
    const std::string name = reverts ? "revert" : "keep";
    const auto expected = Run(InLocality(name + "-whole", seed));
    ASSERT_TRUE(expected.ok()) << expected.status();
    // Of the job's own: from the end of epoch 1 to the beginning of epoch 4.
    for (const int64_t batch : {6, 7, 11, 12, 13, 17, 18, 19}) {
      SCOPED_TRACE(batch);
      TrainJobOptions options = InLocality(name + std::to_string(batch), seed);
      options.checkpoint_every = 4;
      const std::string left = options.directory + "-left";
      const auto copy = [&] {
        std::filesystem::copy(
            options.directory, left,
            std::filesystem::copy_options::recursive |
                std::filesystem::copy_options::overwrite_existing);
      };
      observer_ = {};
      observer_.act_at = batch;
      observer_.act = copy;
      ASSERT_TRUE(Run(options).ok());
      options.directory = left;
      ExpectTheSame(options, *expected);
      EXPECT_EQ(observer_.comparing_batches, 0);
    }
    // Between the checkpoint of epoch 2 and the decision.
    TrainJobOptions options = InLocality(name + "-between", seed);
    const std::string left = options.directory + "-left";
    observer_ = {};
    observer_.on_epoch = [&](const EpochReport& epoch) {
      if (epoch.epoch == 2) {
        std::filesystem::copy(options.directory, left,
                              std::filesystem::copy_options::recursive);
      }
      return absl::OkStatus();
    };
    ASSERT_TRUE(Run(options).ok());
    options.directory = left;
    ExpectTheSame(options, *expected);
    EXPECT_EQ(observer_.training_batches, 12);
    EXPECT_EQ(observer_.comparing_batches, 0);
  }
}

TEST_F(LocalityGuardTest, ADecisionThatIsLostIsMadeAgain) {
  const uint64_t seed = SeedThat(/*reverts=*/true);
  const auto expected = Run(InLocality("whole", seed));
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const bool damaged : {true, false}) {
    // In epochs 2, 3 and 4.
    for (const int64_t batch : {8, 14, 20}) {
      const std::string name =
          (damaged ? "damaged" : "removed") + std::to_string(batch);
      SCOPED_TRACE(name);
      const TrainJobOptions options = InLocality(name, seed);
      std::stop_source stop;
      observer_ = {};
      observer_.act_at = batch;
      observer_.act = [&stop] { stop.request_stop(); };
      EXPECT_FALSE(Run(options, stop.get_token()).ok());
      const std::string file = options.directory + "/order.json";
      if (damaged) {
        ASSERT_TRUE(io::WriteFileAtomically(io::FileSystem::Posix(), file,
                                            "{\"format\":1}")
                        .ok());
      } else {
        ASSERT_TRUE(std::filesystem::remove(file));
      }
      ExpectTheSame(options, *expected);
      // A checkpoint tells the results of the last epoch alone.
      EXPECT_EQ(observer_.training_batches, batch > 18 ? 24 : 24 - batch);
    }
  }
}

// The newest checkpoint may be damaged, and the one before of an earlier epoch.
TEST_F(LocalityGuardTest, KeepsItsDecisionWithAnOlderCheckpoint) {
  const uint64_t seed = SeedThat(/*reverts=*/true);
  const auto expected = Run(InLocality("whole", seed));
  ASSERT_TRUE(expected.ok()) << expected.status();
  TrainJobOptions options = InLocality("damaged", seed);
  const std::string left = options.directory + "-left";
  observer_ = {};
  // Checkpoints are of the ends of epochs 1 and 2.
  observer_.act_at = 13;
  observer_.act = [&] {
    std::filesystem::copy(options.directory, left,
                          std::filesystem::copy_options::recursive);
  };
  ASSERT_TRUE(Run(options).ok());
  std::filesystem::resize_file(left + "/checkpoint.safetensors", 100);
  options.directory = left;
  ExpectTheSame(options, *expected);
  EXPECT_EQ(observer_.training_batches, 18);
  EXPECT_EQ(observer_.comparing_batches, 0);
}

TEST_F(LocalityGuardTest, StrategiesAndTrainersAgree) {
  const auto in_memory = Run(InLocality("memory", 3));
  TrainJobOptions options = InLocality("ginex", 3);
  options.data.strategy =
      strategy::GinexOptions{.cpu_cache_bytes = uint64_t{16} << 10};
  const auto by_ginex = Run(options);
  options = InLocality("diskgnn", 3);
  options.data.strategy =
      strategy::DiskgnnOptions{.cpu_cache_bytes = uint64_t{16} << 10};
  const auto by_diskgnn = Run(options);
  ASSERT_TRUE(in_memory.ok() && by_ginex.ok() && by_diskgnn.ok())
      << by_ginex.status() << by_diskgnn.status();
  EXPECT_EQ(by_ginex->loss_digest, in_memory->loss_digest);
  EXPECT_EQ(by_ginex->locality, in_memory->locality);
  EXPECT_EQ(by_diskgnn->loss_digest, in_memory->loss_digest);
  EXPECT_EQ(by_diskgnn->locality, in_memory->locality);
  options = InLocality("trainers", 3);
  options.data.trainers = 2;
  const auto by_two = Run(options);
  ASSERT_TRUE(by_two.ok()) << by_two.status();
  EXPECT_EQ(by_two->locality->macro_batch_parts,
            in_memory->locality->macro_batch_parts);
}

TEST_F(LocalityGuardTest, RepeatedAndRefreshedEpochsHaveAGuard) {
  for (const auto& [distinct, refresh] :
       {std::pair(1, 0), std::pair(0, 1), std::pair(1, 2)}) {
    SCOPED_TRACE(distinct);
    const std::string name =
        std::to_string(distinct) + "-" + std::to_string(refresh);
    TrainJobOptions options = InLocality(name, 3);
    options.data.distinct_epochs = distinct;
    options.data.refresh_epochs = refresh;
    const auto report = Run(options);
    options.directory += "-shuffled";
    options.data.locality_order = false;
    const auto shuffled = Run(options);
    ASSERT_TRUE(report.ok() && shuffled.ok()) << report.status();
    EXPECT_EQ(*report->locality->shuffled_valid_metric,
              shuffled->epochs[1].valid_metric);
  }
}

TEST_F(LocalityGuardTest, TwoEpochsHaveNone) {
  TrainJobOptions options = InLocality("two", 3);
  options.data.epochs = 2;
  const auto report = Run(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->locality->valid_metric.has_value());
  EXPECT_EQ(observer_.comparing_batches, 0);
  EXPECT_EQ(observer_.training_batches, 12);
}

TEST_F(LocalityGuardTest, AModelIsTestedLater) {
  const uint64_t seed = SeedThat(/*reverts=*/true);
  TrainJobOptions options = InLocality("job", seed);
  options.part = TrainPart::kTraining;
  ASSERT_TRUE(Run(options).ok());
  const auto whole = Run(InLocality("whole", seed));
  options.part = TrainPart::kAll;
  const auto tested = Run(ForTest(options));
  ASSERT_TRUE(whole.ok() && tested.ok()) << tested.status();
  EXPECT_EQ(tested->test_metric, whole->test_metric);
}

TEST_F(LocalityGuardTest, IsRefusedWhereThereCanBeNone) {
  const auto complaint = [this](const TrainJobOptions& options) {
    const absl::Status status = Run(options).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  TrainJobOptions options = InLocality("history", 1);
  options.data.history = HistoryOptions{};
  EXPECT_THAT(complaint(options), HasSubstr("order locality excludes"));
  options = InLocality("model", 1);
  options.train.model = train::NoModelOptions{};
  EXPECT_THAT(complaint(options), HasSubstr("without a model"));
  options = InLocality("key", 1);
  options.data.first_epoch_key = 1;
  EXPECT_THAT(complaint(options), HasSubstr("first_epoch_key must be 0"));
  EXPECT_FALSE(InLocality("group", 1).data.CanShare());
  Import({.label_kind = store::LabelKind::kTargets});
  EXPECT_THAT(complaint(InLocality("targets", 1)),
              HasSubstr("order: must not be locality: the labels of"));
  Import({});
  EditManifest(
      [](store::Manifest& manifest) { manifest.node_types[0].valid = {}; });
  EXPECT_THAT(complaint(InLocality("valid", 1)),
              HasSubstr("order: must not be locality: the dataset has no "
                        "validation nodes"));
}

}  // namespace
}  // namespace hearth::job
