#include "engine/job/checkpoint.h"

#include <filesystem>
#include <string>

#include "engine/io/file_system.h"
#include "engine/train/metric.h"
#include "gtest/gtest.h"

namespace hearth::job {
namespace {

store::Tensor MakeTensor(std::vector<std::byte> data) {
  store::Tensor tensor;
  tensor.shape = {static_cast<int64_t>(data.size() / 4)};
  tensor.data = std::move(data);
  return tensor;
}

strategy::PassReport MakePass(double seconds) {
  strategy::PassReport pass;
  pass.seconds = seconds;
  pass.batches = 3;
  pass.rows_needed = 1000;
  pass.bytes_needed = 80000;
  pass.read_ops = 17;
  pass.rows_read = 400;
  pass.hits = {{.level = "cpu_cache", .rows = 600}};
  pass.phases = {{.name = "inspect", .seconds = 0.5}};
  pass.stages = {{.name = "sample",
                  .threads = 2,
                  .busy_seconds = 0.1,
                  .starved_seconds = 0.2,
                  .blocked_seconds = 0.3,
                  .items = 3,
                  .queue_length = 0}};
  return pass;
}

Checkpoint MakeCheckpoint() {
  Checkpoint checkpoint;
  checkpoint.epoch = 2;
  checkpoint.next_batch = 5;
  checkpoint.losses = {1.5f, 0.1f, 1e-30f};
  checkpoint.epoch_loss_sum = 0.1 + 0.2;
  checkpoint.epoch_seeds = 120;
  checkpoint.epoch_training = MakePass(1.0 / 3);
  EpochReport first;
  first.epoch = 1;
  first.loss = 0.7;
  first.metric = train::Metric::kMicroF1;
  first.valid_metric = 0.5;
  first.training = MakePass(2);
  first.validation = MakePass(3);
  EpochReport second;
  second.epoch = 2;
  second.loss = 0.6;
  checkpoint.epochs = {first, second};
  checkpoint.best_epoch = 1;
  checkpoint.best_metric = 0.5;
  checkpoint.state["model.w"] =
      MakeTensor({std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}});
  checkpoint.best_state["model.w"] =
      MakeTensor({std::byte{5}, std::byte{6}, std::byte{7}, std::byte{8}});
  checkpoint.peak_memory_bytes = 12345;
  checkpoint.resumes = 1;
  return checkpoint;
}

class CheckpointTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = ::testing::TempDir() + "checkpoint";
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
  }
  io::FileSystem& files_ = io::FileSystem::Posix();
  std::string directory_;
};

void ExpectEqual(const strategy::PassReport& a, const strategy::PassReport& b) {
  EXPECT_EQ(a.seconds, b.seconds);
  EXPECT_EQ(a.batches, b.batches);
  EXPECT_EQ(a.rows_needed, b.rows_needed);
  EXPECT_EQ(a.bytes_needed, b.bytes_needed);
  EXPECT_EQ(a.bytes_read, b.bytes_read);
  EXPECT_EQ(a.read_ops, b.read_ops);
  EXPECT_EQ(a.io_wait_seconds, b.io_wait_seconds);
  EXPECT_EQ(a.rows_read, b.rows_read);
  ASSERT_EQ(a.hits.size(), b.hits.size());
  for (size_t i = 0; i < a.hits.size(); ++i) {
    EXPECT_EQ(a.hits[i].level, b.hits[i].level);
    EXPECT_EQ(a.hits[i].rows, b.hits[i].rows);
  }
  ASSERT_EQ(a.phases.size(), b.phases.size());
  for (size_t i = 0; i < a.phases.size(); ++i) {
    EXPECT_EQ(a.phases[i].name, b.phases[i].name);
    EXPECT_EQ(a.phases[i].seconds, b.phases[i].seconds);
  }
  ASSERT_EQ(a.stages.size(), b.stages.size());
  for (size_t i = 0; i < a.stages.size(); ++i) {
    EXPECT_EQ(a.stages[i].name, b.stages[i].name);
    EXPECT_EQ(a.stages[i].threads, b.stages[i].threads);
    EXPECT_EQ(a.stages[i].busy_seconds, b.stages[i].busy_seconds);
    EXPECT_EQ(a.stages[i].starved_seconds, b.stages[i].starved_seconds);
    EXPECT_EQ(a.stages[i].blocked_seconds, b.stages[i].blocked_seconds);
    EXPECT_EQ(a.stages[i].items, b.stages[i].items);
  }
}

TEST_F(CheckpointTest, ReadsWhatWasWritten) {
  const Checkpoint written = MakeCheckpoint();
  ASSERT_TRUE(WriteCheckpoint(files_, directory_, written).ok());
  const auto read = ReadCheckpoint(files_, directory_);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_TRUE(read->has_value());
  const Checkpoint& back = **read;
  EXPECT_EQ(back.epoch, written.epoch);
  EXPECT_EQ(back.next_batch, written.next_batch);
  EXPECT_EQ(back.losses, written.losses);
  EXPECT_EQ(back.epoch_loss_sum, written.epoch_loss_sum);
  EXPECT_EQ(back.epoch_seeds, written.epoch_seeds);
  ExpectEqual(back.epoch_training, written.epoch_training);
  ASSERT_EQ(back.epochs.size(), 2u);
  EXPECT_EQ(back.epochs[0].metric, train::Metric::kMicroF1);
  EXPECT_EQ(back.epochs[0].valid_metric, 0.5);
  EXPECT_EQ(back.epochs[1].metric, train::Metric::kAccuracy);
  EXPECT_EQ(back.epochs[1].valid_metric, std::nullopt);
  ExpectEqual(back.epochs[0].training, written.epochs[0].training);
  ExpectEqual(back.epochs[0].validation, written.epochs[0].validation);
  EXPECT_EQ(back.best_epoch, written.best_epoch);
  EXPECT_EQ(back.best_metric, written.best_metric);
  EXPECT_EQ(back.state.at("model.w").data, written.state.at("model.w").data);
  EXPECT_EQ(back.best_state.at("model.w").data,
            written.best_state.at("model.w").data);
  EXPECT_EQ(back.peak_memory_bytes, 12345u);
  EXPECT_EQ(back.resumes, 1u);
}

TEST_F(CheckpointTest, NoneIsNoError) {
  const auto read = ReadCheckpoint(files_, directory_);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_FALSE(read->has_value());
}

TEST_F(CheckpointTest, AnotherFilesMetadataIsRefused) {
  store::SafeTensors foreign;
  foreign.metadata["progress"] = "{\"version\": 3}";
  ASSERT_TRUE(store::WriteSafeTensors(
                  files_, directory_ + "/checkpoint.safetensors", foreign)
                  .ok());
  const auto read = ReadCheckpoint(files_, directory_);
  EXPECT_EQ(read.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(read.status().message().find("checkpoint.safetensors"),
            absl::string_view::npos);
}

TEST_F(CheckpointTest, AnotherVersionIsNotDamage) {
  store::SafeTensors older;
  older.metadata["progress"] = "{\"version\": 1}";
  ASSERT_TRUE(store::WriteSafeTensors(
                  files_, directory_ + "/checkpoint.safetensors", older)
                  .ok());
  EXPECT_EQ(ReadCheckpoint(files_, directory_).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace hearth::job
