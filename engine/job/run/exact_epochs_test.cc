#include "engine/job/run/exact_epochs.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/io/whole_file.h"
#include "engine/job/interface/train_job_options.h"
#include "engine/job/run/job_fixture.h"
#include "engine/store/manifest.h"
#include "engine/store/safetensors.h"
#include "engine/train/model_options.h"
#include "engine/train/train_step.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::job {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// A model of one weight, which moves with the losses. A loss depends on the
// embeddings that are pulled and on the position, a prediction on the weight.
class WeightStep final : public train::TrainStep {
 public:
  absl::StatusOr<train::BatchResult> Train(
      absl::Span<const train::BatchView> shards,
      const train::StepPosition& position) override {
    float loss = weight_ + 0.01f * static_cast<float>(position.batch);
    for (const train::BatchView& shard : shards) {
      if (!shard.sample.top.has_value()) continue;
      for (size_t i = 0; i < shard.sample.top->pulled.size(); ++i) {
        loss += 1e-3f * shard.top_rows.pulled[i];
      }
      for (size_t i = 0; i < shard.sample.top->pushed.size(); ++i) {
        shard.top_rows.pushed[i] = weight_;
      }
    }
    weight_ += 0.01f * loss;
    return train::BatchResult{.loss = loss,
                              .num_seeds = train::NumSeeds(shards)};
  }

  absl::StatusOr<train::BatchResult> Evaluate(
      absl::Span<const train::BatchView> shards) override {
    const int64_t seeds = train::NumSeeds(shards);
    return train::BatchResult{.loss = weight_,
                              .num_seeds = seeds,
                              .tally = {.num_predictions = seeds,
                                        .num_correct = static_cast<int64_t>(
                                            std::abs(std::sin(1e4f * weight_)) *
                                            static_cast<float>(seeds))}};
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

  int64_t TopWidth() const override { return 1; }

  absl::StatusOr<store::SafeTensors> Export() override {
    store::SafeTensors model;
    model.tensors = *Save();
    model.metadata["config"] = "{}";
    return model;
  }

 private:
  float weight_ = 0.5f;
};

// Jobs have 4 epochs of 6 batches; the first two are compared.
class ExactEpochsTest : public JobTest {
 protected:
  void SetUp() override {
    JobTest::SetUp();
    new_train_step_ = [](const train::TrainOptions&, const train::ModelShape&)
        -> absl::StatusOr<std::unique_ptr<train::TrainStep>> {
      return std::make_unique<WeightStep>();
    };
  }

  TrainJobOptions Comparing(const std::string& directory,
                            int64_t compare_epochs = 2) const {
    TrainJobOptions options = Options(directory);
    options.train.model = train::SageOptions{.hidden = 1};
    options.data.history = HistoryOptions{.cache_bytes = uint64_t{16} << 10,
                                          .staleness = 3,
                                          .compare_epochs = compare_epochs};
    return options;
  }

  // Runs the job to its end after an interrupted run, and compares the results.
  void ExpectTheSame(const TrainJobOptions& options,
                     const WholeReport& expected) {
    observer_ = {};
    const auto report = Run(options);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->loss_digest, expected.loss_digest);
    EXPECT_EQ(report->test_metric, expected.test_metric);
    ASSERT_EQ(report->epochs.size(), expected.epochs.size());
    for (size_t i = 0; i < expected.epochs.size(); ++i) {
      const auto& exact = report->epochs[i].exact;
      const auto& expected_exact = expected.epochs[i].exact;
      ASSERT_EQ(exact.has_value(), expected_exact.has_value());
      if (!exact.has_value()) continue;
      EXPECT_EQ(exact->loss, expected_exact->loss);
      EXPECT_EQ(exact->valid_metric, expected_exact->valid_metric);
      EXPECT_EQ(exact->rows_needed, expected_exact->rows_needed);
    }
  }
};

TEST_F(ExactEpochsTest, AreThoseOfTheJobWithoutItsHistory) {
  TrainJobOptions options = Comparing("exact");
  options.data.history.reset();
  const auto exact = Run(options);
  const auto alone = Run(Comparing("alone", 0));
  observer_ = {};
  const auto report = Run(Comparing("compared"));
  ASSERT_TRUE(exact.ok() && alone.ok() && report.ok()) << report.status();
  // The comparison does not change the job.
  EXPECT_EQ(report->loss_digest, alone->loss_digest);
  EXPECT_NE(report->loss_digest, exact->loss_digest);
  EXPECT_EQ(report->test_metric, alone->test_metric);
  EXPECT_EQ(report->resumes, 0u);
  EXPECT_GT(report->first_batch_seconds, 0);
  ASSERT_EQ(report->epochs.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(report->epochs[i].loss, alone->epochs[i].loss);
    EXPECT_FALSE(alone->epochs[i].exact.has_value());
    ASSERT_EQ(report->epochs[i].exact.has_value(), i < 2);
    if (i >= 2) continue;
    const ExactEpoch& compared = *report->epochs[i].exact;
    EXPECT_EQ(compared.loss, exact->epochs[i].loss);
    EXPECT_EQ(compared.valid_metric, exact->epochs[i].valid_metric);
    EXPECT_EQ(compared.rows_needed, exact->epochs[i].training.rows_needed);
    EXPECT_GT(compared.seconds, 0);
  }
  EXPECT_NE(report->epochs[1].valid_metric,
            report->epochs[1].exact->valid_metric);
}

TEST_F(ExactEpochsTest, ThePartitionIsReportedAsTheirs) {
  TrainJobOptions options = Comparing("parts");
  options.data.partition_order =
      PartitionOrder{.parts = 12, .macro_batch_parts = 3};
  const auto report = Run(options);
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_TRUE(report->partition.has_value());
  EXPECT_FALSE(report->partition->reused);
  EXPECT_FALSE(report->partition->phases.empty());
}

TEST_F(ExactEpochsTest, AreToldOfAndLeaveNothingButTheirFigures) {
  const auto report = Run(Comparing("job"));
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(observer_.running, 1);
  EXPECT_EQ(observer_.epochs.size(), 4u);
  EXPECT_EQ(observer_.comparing_batches, 12);
  EXPECT_EQ(observer_.training_batches, 24);
  EXPECT_THAT(observer_.phases, Contains("comparing: validating"));
  EXPECT_THAT(observer_.log, HasSubstr("without a history: epoch 2: loss "));
  EXPECT_THAT(observer_.log, HasSubstr("epoch 2: validation accuracy "));
  EXPECT_EQ(memory_->reserved_bytes(), 0u);
  std::vector<std::string> left;
  for (const auto& file :
       std::filesystem::directory_iterator(root_ + "/job/exact")) {
    left.push_back(file.path().filename());
  }
  EXPECT_EQ(left, std::vector<std::string>{"epochs.json"});
}

TEST_F(ExactEpochsTest, StoppedAnywhereTheyGoOnAsIfUndisturbed) {
  const auto expected = Run(Comparing("whole"));
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const int64_t batch : {1, 5, 6, 7, 12}) {
    SCOPED_TRACE(batch);
    const TrainJobOptions options = Comparing("stop" + std::to_string(batch));
    std::stop_source stop;
    observer_ = {};
    observer_.act_at_comparing = batch;
    observer_.act = [&stop] { stop.request_stop(); };
    const auto stopped = Run(options, stop.get_token());
    ASSERT_TRUE(absl::IsCancelled(stopped.status())) << stopped.status();
    ExpectTheSame(options, *expected);
    EXPECT_EQ(observer_.comparing_batches, 12 - batch);
    EXPECT_EQ(observer_.training_batches, 24);
  }
}

TEST_F(ExactEpochsTest, AreNotTrainedAgainOnceTheyAreDone) {
  const auto expected = Run(Comparing("whole"));
  for (const int64_t batch : {1, 9, 20}) {
    const TrainJobOptions options = Comparing("stop" + std::to_string(batch));
    std::stop_source stop;
    observer_ = {};
    observer_.act_at = batch;
    observer_.act = [&stop] { stop.request_stop(); };
    const auto stopped = Run(options, stop.get_token());
    ASSERT_TRUE(absl::IsCancelled(stopped.status())) << stopped.status();
    ExpectTheSame(options, *expected);
    EXPECT_EQ(observer_.comparing_batches, 0);
    EXPECT_EQ(observer_.training_batches, 24 - batch);
    EXPECT_EQ(observer_.running, 1);
  }
}

// A kill leaves the folder as it was at some batch.
TEST_F(ExactEpochsTest, KilledAnywhereTheyGoOnFromTheLastCheckpoint) {
  const auto expected = Run(Comparing("whole"));
  for (const int64_t batch : {1, 4, 5, 6, 7, 11, 12}) {
    SCOPED_TRACE(batch);
    TrainJobOptions options = Comparing("killed" + std::to_string(batch));
    options.checkpoint_every = 4;
    const std::string left = options.directory + "-left";
    observer_ = {};
    observer_.act_at_comparing = batch;
    observer_.act = [&] {
      std::filesystem::copy(options.directory, left,
                            std::filesystem::copy_options::recursive);
    };
    ASSERT_TRUE(Run(options).ok());
    options.directory = left;
    ExpectTheSame(options, *expected);
    // Checkpoints are at batches 4, 6 (the epoch's end) and 10.
    const int64_t kept = batch > 10 ? 10 : batch > 6 ? 6 : batch > 4 ? 4 : 0;
    EXPECT_EQ(observer_.comparing_batches, 12 - kept);
  }
}

// A checkpoint has only the results of the last epoch.
TEST_F(ExactEpochsTest, FiguresThatAreLostAreMadeAgain) {
  const auto expected = Run(Comparing("whole", 3));
  for (const bool damaged : {true, false}) {
    // In the last of three epochs, and after it.
    for (const int64_t batch : {15, 19}) {
      const std::string name =
          (damaged ? "damaged" : "removed") + std::to_string(batch);
      SCOPED_TRACE(name);
      const TrainJobOptions options = Comparing(name, 3);
      std::stop_source stop;
      observer_ = {};
      if (batch > 18) {
        observer_.act_at = batch - 18;
      } else {
        observer_.act_at_comparing = batch;
      }
      observer_.act = [&stop] { stop.request_stop(); };
      EXPECT_FALSE(Run(options, stop.get_token()).ok());
      const std::string file = options.directory + "/exact/epochs.json";
      if (damaged) {
        ASSERT_TRUE(io::WriteFileAtomically(io::FileSystem::Posix(), file,
                                            "{\"format\":1}")
                        .ok());
      } else {
        ASSERT_TRUE(std::filesystem::remove(file));
      }
      ExpectTheSame(options, *expected);
      EXPECT_EQ(observer_.comparing_batches, 18);
      EXPECT_EQ(observer_.warnings.size(),
                (damaged ? 1u : 0u) + (batch == 15 ? 1u : 0u));
    }
  }
}

TEST_F(ExactEpochsTest, AFileThatCannotBeWrittenEndsTheJob) {
  const TrainJobOptions options = Comparing("full");
  observer_.act_at_comparing = 5;
  observer_.act = [&] {
    std::filesystem::create_directories(options.directory +
                                        "/exact/epochs.json/x");
  };
  EXPECT_FALSE(Run(options).ok());
  EXPECT_EQ(observer_.training_batches, 0);
  EXPECT_EQ(memory_->reserved_bytes(), 0u);
}

TEST_F(ExactEpochsTest, AreRefusedWhereThereCanBeNone) {
  const auto complaint = [this](const TrainJobOptions& options) {
    const absl::Status status = Run(options).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(complaint(Comparing("many", 5)),
              HasSubstr("compare_epochs must be at most epochs (4), not 5"));
  EXPECT_THAT(complaint(Comparing("negative", -1)),
              HasSubstr("compare_epochs must be at least 0"));
  TrainJobOptions options = Comparing("model");
  options.train.model = train::NoModelOptions{};
  EXPECT_THAT(complaint(options), HasSubstr("without a model"));
  options = Comparing("memory");
  options.data.history->cache_bytes = 1000;
  EXPECT_THAT(complaint(options),
              HasSubstr("history.cache_bytes: 1000 B hold no embedding"));
  EXPECT_EQ(observer_.comparing_batches, 0) << "it was compared for nothing";
  EditManifest(
      [](store::Manifest& manifest) { manifest.node_types[0].valid = {}; });
  EXPECT_THAT(complaint(Comparing("valid")),
              HasSubstr("compare_epochs: must be 0: the dataset has no "
                        "validation nodes"));
}

}  // namespace
}  // namespace hearth::job
