#include "engine/job/checkpoint/checkpoint.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "engine/base/sha256.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "engine/io/whole_file.h"
#include "engine/train/metric.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::job {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kEven[] = "/checkpoint.safetensors";
constexpr char kOdd[] = "/checkpoint-odd.safetensors";
constexpr char kFingerprint[] = "abc";

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
  pass.list_hits = {{.level = "neighbor_cache", .lists = 70}};
  pass.lists_read = 8;
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

absl::Span<const std::byte> BytesOf(const std::vector<float>& losses) {
  return {reinterpret_cast<const std::byte*>(losses.data()),
          losses.size() * sizeof(float)};
}

Checkpoint MakeCheckpoint() {
  Checkpoint checkpoint;
  checkpoint.fingerprint = kFingerprint;
  checkpoint.epoch = 2;
  checkpoint.next_batch = 5;
  checkpoint.losses.Update(BytesOf({1.5f, 0.1f, 1e-30f}));
  checkpoint.epoch_loss_sum = 0.1 + 0.2;
  checkpoint.epoch_seeds = 120;
  checkpoint.epoch_training = MakePass(1.0 / 3);
  EpochReport& last = checkpoint.last_epoch.emplace();
  last.epoch = 2;
  last.loss = 0.7;
  last.metric = train::Metric::kMicroF1;
  last.valid_metric = 0.5;
  last.training = MakePass(2);
  last.validation = MakePass(3);
  last.exact = ExactEpoch{
      .loss = 0.6, .valid_metric = 0.55, .seconds = 3.5, .rows_needed = 12345};
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
  // Writes a checkpoint and returns it.
  Checkpoint Write(Checkpoint checkpoint) {
    store::TensorMap state = checkpoint.state;
    EXPECT_TRUE(WriteCheckpoint(files_, directory_, checkpoint).ok());
    EXPECT_TRUE(checkpoint.state.empty()) << "taken";
    checkpoint.state = std::move(state);
    return checkpoint;
  }

  absl::StatusOr<FoundCheckpoint> Read() {
    absl::StatusOr<FoundCheckpoint> found =
        FindCheckpoint(files_, directory_, kFingerprint);
    if (found.ok() && found->checkpoint.has_value()) {
      EXPECT_TRUE(found->checkpoint->state.empty()) << "not read yet";
      const absl::Status status =
          ReadTensors(files_, directory_, *found->checkpoint);
      EXPECT_TRUE(status.ok()) << status;
    }
    return found;
  }

  std::string Contents(const std::string& name) {
    return *io::ReadWholeFile(files_, directory_ + name, 1 << 20);
  }

  void Replace(const std::string& name, const std::string& contents) {
    std::ofstream(directory_ + name, std::ios::binary) << contents;
  }

  void WriteProgress(const std::string& progress) {
    store::SafeTensors contents;
    contents.metadata["progress"] = progress;
    ASSERT_TRUE(
        store::WriteSafeTensors(files_, directory_ + kEven, contents).ok());
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
  EXPECT_EQ(a.lists_read, b.lists_read);
  ASSERT_EQ(a.list_hits.size(), b.list_hits.size());
  for (size_t i = 0; i < a.list_hits.size(); ++i) {
    EXPECT_EQ(a.list_hits[i].level, b.list_hits[i].level);
    EXPECT_EQ(a.list_hits[i].lists, b.list_hits[i].lists);
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
  const Checkpoint written = Write(MakeCheckpoint());
  const auto read = Read();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(read->damages, IsEmpty());
  ASSERT_TRUE(read->checkpoint.has_value());
  const Checkpoint& back = *read->checkpoint;
  EXPECT_EQ(back.generation, 1u);
  EXPECT_EQ(back.fingerprint, kFingerprint);
  EXPECT_EQ(back.epoch, written.epoch);
  EXPECT_EQ(back.next_batch, written.next_batch);
  EXPECT_EQ(back.losses.HexDigest(), written.losses.HexDigest());
  EXPECT_EQ(back.epoch_loss_sum, written.epoch_loss_sum);
  EXPECT_EQ(back.epoch_seeds, written.epoch_seeds);
  ExpectEqual(back.epoch_training, written.epoch_training);
  ASSERT_TRUE(back.last_epoch.has_value());
  EXPECT_EQ(back.last_epoch->epoch, 2u);
  EXPECT_EQ(back.last_epoch->loss, 0.7);
  EXPECT_EQ(back.last_epoch->metric, train::Metric::kMicroF1);
  EXPECT_EQ(back.last_epoch->valid_metric, 0.5);
  ExpectEqual(back.last_epoch->training, written.last_epoch->training);
  ExpectEqual(back.last_epoch->validation, written.last_epoch->validation);
  ASSERT_TRUE(back.last_epoch->exact.has_value());
  EXPECT_EQ(back.last_epoch->exact->loss, 0.6);
  EXPECT_EQ(back.last_epoch->exact->valid_metric, 0.55);
  EXPECT_EQ(back.last_epoch->exact->seconds, 3.5);
  EXPECT_EQ(back.last_epoch->exact->rows_needed, 12345);
  EXPECT_EQ(back.best_epoch, written.best_epoch);
  EXPECT_EQ(back.best_metric, written.best_metric);
  EXPECT_EQ(back.state.at("model.w").data, written.state.at("model.w").data);
  EXPECT_EQ(back.best_state.at("model.w").data,
            written.best_state.at("model.w").data);
  EXPECT_EQ(back.peak_memory_bytes, 12345u);
  EXPECT_EQ(back.resumes, 1u);
}

TEST_F(CheckpointTest, AMetricThatIsNotDefinedStaysSo) {
  Checkpoint written = MakeCheckpoint();
  written.last_epoch->metric = train::Metric::kRocAuc;
  written.last_epoch->valid_metric = std::nan("");
  Write(std::move(written));
  const auto read = Read();
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_TRUE(read->checkpoint.has_value());
  const EpochReport& back = *read->checkpoint->last_epoch;
  EXPECT_EQ(back.metric, train::Metric::kRocAuc);
  ASSERT_TRUE(back.valid_metric.has_value());
  EXPECT_TRUE(std::isnan(*back.valid_metric));
}

TEST_F(CheckpointTest, NoneIsNoError) {
  const auto read = Read();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_FALSE(read->checkpoint.has_value());
  EXPECT_THAT(read->damages, IsEmpty());
  EXPECT_TRUE(CheckCheckpoint(files_, directory_, kFingerprint).ok());
}

TEST_F(CheckpointTest, TheLastTwoGenerationsAreKept) {
  Checkpoint checkpoint = MakeCheckpoint();
  for (uint64_t generation = 1; generation <= 5; ++generation) {
    checkpoint.epoch = static_cast<int64_t>(100 + generation);
    checkpoint = Write(std::move(checkpoint));
    EXPECT_EQ(checkpoint.generation, generation);
    EXPECT_EQ(Read()->checkpoint->epoch, checkpoint.epoch);
  }
  std::filesystem::remove(directory_ + kOdd);
  EXPECT_EQ(Read()->checkpoint->generation, 4u);
  EXPECT_EQ(Read()->checkpoint->epoch, 104);
}

// A damaged checkpoint is never read; the previous one is.
TEST_F(CheckpointTest, AFlippedBitIsFoundOrHarmless) {
  const Checkpoint newest = Write(Write(MakeCheckpoint()));
  const std::string whole = Contents(kEven);
  size_t found = 0;
  for (size_t bit = 0; bit < whole.size() * 8; bit += 17) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    Replace(kEven, damaged);
    const auto read = Read();
    ASSERT_TRUE(read.ok()) << "bit " << bit << ": " << read.status();
    ASSERT_TRUE(read->checkpoint.has_value()) << "bit " << bit;
    if (read->checkpoint->generation == newest.generation) {
      EXPECT_EQ(read->checkpoint->state.at("model.w").data,
                newest.state.at("model.w").data);
      EXPECT_EQ(read->checkpoint->losses.HexDigest(),
                newest.losses.HexDigest());
    } else {
      EXPECT_EQ(read->checkpoint->generation, 1u);
      EXPECT_THAT(read->damages, ElementsAre(HasSubstr(kEven)));
      ++found;
    }
  }
  // Other bits are blanks, and names in the metadata that are not used.
  EXPECT_GT(found, whole.size() * 8 / 17 * 9 / 10);
}

TEST_F(CheckpointTest, TruncatedOneIsDamaged) {
  Write(Write(MakeCheckpoint()));
  const std::string whole = Contents(kEven);
  for (const size_t size : {size_t{0}, size_t{7}, whole.size() - 1}) {
    Replace(kEven, whole.substr(0, size));
    EXPECT_EQ(Read()->checkpoint->generation, 1u) << size;
  }
  Replace(kOdd, "");
  const auto read = Read();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_FALSE(read->checkpoint.has_value());
  EXPECT_THAT(read->damages, ElementsAre(HasSubstr(kEven), HasSubstr(kOdd)));
}

// The checkpoint written after damage replaces the damaged one.
TEST_F(CheckpointTest, GoesOnAfterDamage) {
  Write(Write(MakeCheckpoint()));
  Replace(kEven, "damaged");
  EXPECT_EQ(Write(*std::move(Read()->checkpoint)).generation, 2u);
  EXPECT_EQ(Read()->checkpoint->generation, 2u);
  EXPECT_THAT(Read()->damages, IsEmpty());
}

TEST_F(CheckpointTest, AReadThatFailsIsNoDamage) {
  Write(Write(MakeCheckpoint()));
  io::FaultyFileSystem faulty(files_);
  faulty.Inject({.for_good = true, .only = io::Operation::kRead});
  EXPECT_TRUE(absl::IsUnavailable(
      FindCheckpoint(faulty, directory_, kFingerprint).status()));
}

// Between FindCheckpoint and ReadTensors memory may be reserved.
TEST_F(CheckpointTest, TensorsThatChangeBeforeTheyAreReadAreRefused) {
  Write(MakeCheckpoint());
  auto found = FindCheckpoint(files_, directory_, kFingerprint);
  ASSERT_TRUE(found.ok() && found->checkpoint.has_value());
  Checkpoint other = MakeCheckpoint();
  other.generation = 2;
  Write(std::move(other));
  const absl::Status status =
      ReadTensors(files_, directory_, *found->checkpoint);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(kOdd));
}

TEST_F(CheckpointTest, AFailedWriteLeavesBothAndTheNumber) {
  Checkpoint checkpoint = Write(Write(MakeCheckpoint()));
  io::FaultyFileSystem faulty(files_);
  faulty.Inject({.only = io::Operation::kRename});
  EXPECT_FALSE(WriteCheckpoint(faulty, directory_, checkpoint).ok());
  EXPECT_EQ(checkpoint.generation, 2u);
  EXPECT_EQ(Read()->checkpoint->generation, 2u);
  std::filesystem::remove(directory_ + kEven);
  EXPECT_EQ(Read()->checkpoint->generation, 1u);
}

TEST_F(CheckpointTest, ItsSizeDoesNotGrow) {
  Checkpoint checkpoint = MakeCheckpoint();
  Write(MakeCheckpoint());
  const size_t small = Contents(kOdd).size();
  checkpoint.epoch = 99'999;
  checkpoint.last_epoch->epoch = 99'999;
  checkpoint.best_epoch = 99'999;
  const std::vector<float> losses(1'000'000, 0.5f);
  checkpoint.losses.Update(BytesOf(losses));
  Write(std::move(checkpoint));
  EXPECT_LT(Contents(kOdd).size(), small + 64);
}

// Version 3 numbered no checkpoints and kept all epochs and losses.
TEST_F(CheckpointTest, GoesOnFromVersion3) {
  const std::vector<float> losses = {1.5f, 0.25f};
  store::SafeTensors old;
  const std::string pass =
      R"({"seconds": 1, "batches": 2, "rows_needed": 3, "bytes_needed": 4,
          "bytes_read": null, "read_ops": 5, "io_wait_seconds": null,
          "rows_read": null, "hits": [], "phases": [], "stages": []})";
  const std::string epoch =
      R"({"epoch": 1, "loss": 0.5, "metric": "accuracy", "valid_metric": 0.75,
          "training": )" +
      pass + R"(, "validation": )" + pass + "}";
  old.metadata["progress"] =
      R"({"version": 3, "epoch": 1, "next_batch": 0, "epoch_loss_sum": 0,
          "epoch_seeds": 0, "best_epoch": 0, "best_metric": null,
          "peak_memory_bytes": 9, "resumes": 2, "epoch_training": )" +
      pass + R"(, "epochs": [)" + epoch + "]}";
  old.tensors["losses"] =
      MakeTensor({BytesOf(losses).begin(), BytesOf(losses).end()});
  old.tensors["state.model.w"] = MakeTensor(std::vector<std::byte>(8));
  ASSERT_TRUE(store::WriteSafeTensors(files_, directory_ + kEven, old).ok());
  auto read = Read();
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_TRUE(read->checkpoint.has_value());
  Checkpoint& checkpoint = *read->checkpoint;
  EXPECT_EQ(checkpoint.epoch, 1);
  EXPECT_EQ(checkpoint.resumes, 2u);
  EXPECT_EQ(checkpoint.last_epoch->valid_metric, 0.75);
  EXPECT_EQ(checkpoint.state.count("model.w"), 1u);
  Sha256 digest;
  digest.Update(BytesOf(losses));
  EXPECT_EQ(checkpoint.losses.HexDigest(), digest.HexDigest());
  // The new checkpoint stands beside the old file.
  EXPECT_EQ(Write(std::move(checkpoint)).generation, 1u);
  EXPECT_EQ(Read()->checkpoint->generation, 1u);
  Replace(kOdd, "damaged");
  EXPECT_EQ(Read()->checkpoint->generation, 0u);
}

TEST_F(CheckpointTest, KeptEmbeddingsComeBackAndAreTakenByWriting) {
  Checkpoint checkpoint;
  checkpoint.fingerprint = kFingerprint;
  store::Tensor& rows = checkpoint.histories["rows"];
  rows.shape = {2};
  rows.data.resize(2 * sizeof(float), std::byte{7});
  const std::vector<std::byte> data = rows.data;
  ASSERT_EQ(WriteCheckpoint(files_, directory_, checkpoint), absl::OkStatus());
  EXPECT_TRUE(checkpoint.histories.empty());
  const auto read = Read();
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->checkpoint->histories.size(), 1u);
  EXPECT_EQ(read->checkpoint->histories.at("rows").data, data);
}

// Older programs refuse what tells of machines, and read all else.
TEST_F(CheckpointTest, NumbersOfMachinesHaveAVersionOfTheirOwn) {
  Checkpoint checkpoint = Write(MakeCheckpoint());
  EXPECT_THAT(Contents(kOdd), HasSubstr(R"(\"version\":4)"));
  EXPECT_THAT(Contents(kOdd), Not(HasSubstr("machines")));
  checkpoint.machines = {{.machines = 3}, {.epoch = 1, .batch = 7}};
  Write(std::move(checkpoint));
  EXPECT_THAT(Contents(kEven), HasSubstr(R"(\"version\":7)"));
  const auto read = Read();
  ASSERT_TRUE(read.ok()) << read.status();
  const std::vector<MachineChange>& machines = read->checkpoint->machines;
  ASSERT_EQ(machines.size(), 2u);
  EXPECT_EQ(machines[0].machines, 3);
  EXPECT_EQ(machines[1].epoch, 1);
  EXPECT_EQ(machines[1].batch, 7);
  EXPECT_EQ(machines[1].machines, 1);
}

TEST_F(CheckpointTest, AnotherFilesMetadataIsDamage) {
  WriteProgress("{\"version\": 4}");
  const auto read = Read();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_FALSE(read->checkpoint.has_value());
  EXPECT_THAT(read->damages, ElementsAre(HasSubstr(kEven)));
}

TEST_F(CheckpointTest, AnotherVersionIsNotDamage) {
  for (const char* version : {"1", "2", "8"}) {
    WriteProgress(std::string("{\"version\": ") + version + "}");
    for (const absl::Status& status :
         {Read().status(), CheckCheckpoint(files_, directory_, kFingerprint)}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_THAT(std::string(status.message()), HasSubstr(kEven));
    }
  }
}

TEST_F(CheckpointTest, AnotherDatasetIsRefused) {
  Write(MakeCheckpoint());
  EXPECT_TRUE(CheckCheckpoint(files_, directory_, kFingerprint).ok());
  for (const absl::Status& status :
       {FindCheckpoint(files_, directory_, "other").status(),
        CheckCheckpoint(files_, directory_, "other")}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("has changed"));
  }
}

}  // namespace
}  // namespace hearth::job
