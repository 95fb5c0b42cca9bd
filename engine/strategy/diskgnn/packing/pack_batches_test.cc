#include "engine/strategy/diskgnn/packing/pack_batches.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/random.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"
#include "engine/strategy/diskgnn/layout/segment_planner.h"
#include "engine/strategy/diskgnn/packing/pack_files.h"
#include "engine/strategy/diskgnn/packing/plan_reader.h"
#include "engine/strategy/diskgnn/packing/small_plan_fixture.h"
#include "engine/strategy/packing/file_range.h"
#include "engine/strategy/packing/region_writer.h"
#include "engine/strategy/packing/sample_spool.h"
#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

io::FileSystem& Posix() { return io::FileSystem::Posix(); }

// The least limit that packing takes.
uint64_t LeastMemory(const SmallPlan& plan) {
  uint64_t enough = 1 << 30;
  uint64_t too_little = 0;
  while (enough - too_little > 1) {
    const uint64_t middle = (enough + too_little) / 2;
    const bool fits =
        PlanPackMemory(plan.layout(), plan.shape().num_nodes, middle).ok();
    (fits ? enough : too_little) = middle;
  }
  return enough;
}

// The bound of the batches of a plan.
PackBound BoundOf(const SmallPlan& plan) {
  const PackedLayout& layout = plan.layout();
  PackBound bound = {.num_nodes = plan.shape().num_nodes,
                     .row_bytes = layout.row_bytes,
                     .num_batches = layout.num_batches()};
  for (int64_t batch = 0; batch < layout.num_batches(); ++batch) {
    const LevelCounts& counts = layout.chunks[batch].counts;
    bound.batch_nodes = std::max(bound.batch_nodes, counts.total());
    bound.sample_bytes =
        std::max(bound.sample_bytes,
                 static_cast<uint64_t>(layout.FeaturesRange(batch).offset -
                                       layout.SampleRange(batch).offset));
  }
  return bound;
}

class PackShapesTest : public ::testing::TestWithParam<SmallPlan::Shape> {};

TEST_P(PackShapesTest, EveryBatchFindsItsRows) {
  const SmallPlan plan(GetParam());
  const auto layout = plan.Pack(Posix());
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(plan.ReadAll(Posix()), absl::OkStatus());
}

TEST_P(PackShapesTest, WhatIsEnoughIsKnownBeforeTheLayout) {
  const SmallPlan plan(GetParam());
  const PackedLayout& layout = plan.layout();
  PackBound bound = BoundOf(plan);
  const uint64_t enough = EnoughPackMemory(bound);
  EXPECT_TRUE(PlanPackMemory(layout, bound.num_nodes, enough).ok());
  // The same batches, of graphs of up to a terabyte.
  for (int64_t nodes = bound.num_nodes;
       nodes * layout.row_bytes < int64_t{1} << 40; nodes *= 3) {
    bound.num_nodes = nodes;
    EXPECT_TRUE(PlanPackMemory(layout, nodes, EnoughPackMemory(bound)).ok())
        << nodes << " nodes";
  }
}

TEST_P(PackShapesTest, MoreMemoryThanIsUsefulChangesNothing) {
  const SmallPlan plan(GetParam());
  const PackedLayout& layout = plan.layout();
  const PackBound bound = BoundOf(plan);
  for (const int threads : {1, 4}) {
    const uint64_t useful = UsefulPackMemory(bound, threads);
    const auto chosen =
        PlanPackMemory(layout, bound.num_nodes, useful, threads);
    ASSERT_TRUE(chosen.ok()) << chosen.status();
    const auto rich =
        PlanPackMemory(layout, bound.num_nodes, useful * 100, threads);
    ASSERT_TRUE(rich.ok()) << rich.status();
    EXPECT_EQ(chosen->workers, rich->workers);
    EXPECT_EQ(chosen->num_partitions, rich->num_partitions);
    EXPECT_EQ(chosen->block_bytes, rich->block_bytes);
    EXPECT_LE(chosen->scan_bytes, useful);
    EXPECT_LE(chosen->planning_bytes, useful);
  }
}

TEST_P(PackShapesTest, SizesAreKnownExactly) {
  const SmallPlan plan(GetParam());
  ASSERT_TRUE(plan.Pack(Posix()).ok());
  const PackedLayout& layout = plan.layout();
  const std::map<std::string, std::string> files = plan.Files();
  EXPECT_EQ(files.size(), 6u);
  EXPECT_EQ(files.at(kPacksFile).size(), layout.packs_bytes());
  EXPECT_EQ(files.at(kDiskCacheFile).size(), layout.disk_cache_bytes());
  EXPECT_EQ(files.at(kDiskChecksumsFile).size(), layout.disk_checksums_bytes());
  EXPECT_EQ(files.at(kGpuCacheFile).size(), layout.gpu_cache_bytes());
  EXPECT_EQ(files.at(kCpuCacheFile).size(), layout.cpu_cache_bytes());
  EXPECT_EQ(files.at(kIndexFile).size(), layout.index_bytes());
  uint64_t total = 0;
  for (const auto& [name, contents] : files) total += contents.size();
  EXPECT_EQ(total, layout.total_bytes());
}

TEST_P(PackShapesTest, TheSameBytesAtAnyMemoryLimit) {
  const SmallPlan plan(GetParam());
  ASSERT_TRUE(plan.Pack(Posix()).ok());
  const std::map<std::string, std::string> files = plan.Files();
  const uint64_t least = LeastMemory(plan);
  for (const uint64_t limit : {least, least + 50'000}) {
    PackOptions options;
    options.memory_limit_bytes = limit;
    const absl::Status status = plan.Pack(Posix(), options).status();
    ASSERT_TRUE(status.ok()) << limit << ": " << status;
    EXPECT_TRUE(plan.Files() == files) << limit;
  }
}

TEST_P(PackShapesTest, TheSameBytesByAnyNumberOfThreads) {
  const SmallPlan plan(GetParam());
  ASSERT_TRUE(plan.Pack(Posix()).ok());
  const std::map<std::string, std::string> files = plan.Files();
  for (const int threads : {2, 3, 16}) {
    PackOptions options;
    options.threads = threads;
    const absl::Status status = plan.Pack(Posix(), options).status();
    ASSERT_TRUE(status.ok()) << threads << ": " << status;
    EXPECT_TRUE(plan.Files() == files) << threads;
  }
}

TEST(PackThreadsTest, ManyPartitionsAreSharedAmongThem) {
  const SmallPlan plan(
      {.num_nodes = 3000, .batch_nodes = 900, .row_bytes = 5000});
  ASSERT_TRUE(plan.Pack(Posix()).ok());
  const std::map<std::string, std::string> files = plan.Files();
  PackOptions options;
  options.memory_limit_bytes = 25 << 20;
  options.threads = 2;
  const auto memory = PlanPackMemory(plan.layout(), plan.shape().num_nodes,
                                     options.memory_limit_bytes, 2);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->workers, 2);
  EXPECT_GT(memory->num_partitions, 2);
  ASSERT_TRUE(plan.Pack(Posix(), options).ok());
  EXPECT_TRUE(plan.Files() == files);
}

TEST(PackThreadsTest, TheirBuffersAreWithinTheLimit) {
  const SmallPlan plan({});
  const auto memory_of = [&](uint64_t limit, int threads) {
    return *PlanPackMemory(plan.layout(), plan.shape().num_nodes, limit,
                           threads);
  };
  const uint64_t least = LeastMemory(plan);
  EXPECT_EQ(memory_of(least, 8).workers, 1);
  const PackMemory one = memory_of(1 << 30, 1);
  const PackMemory eight = memory_of(1 << 30, 8);
  EXPECT_EQ(one.workers, 1);
  EXPECT_EQ(eight.workers, 8);
  EXPECT_GE(eight.scan_bytes,
            one.scan_bytes + 7 * 2 * RegionWriter::kStagingBytes);
  for (uint64_t limit = least; limit < 1 << 30; limit *= 2) {
    EXPECT_LE(memory_of(limit, 8).scan_bytes, limit);
    EXPECT_LE(memory_of(limit, 8).planning_bytes, limit);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, PackShapesTest,
    ::testing::Values(SmallPlan::Shape{}, SmallPlan::Shape{.segment_size = 1},
                      SmallPlan::Shape{.memory_rows = {}, .segment_size = 10},
                      SmallPlan::Shape{.memory_rows = {.gpu = 0, .cpu = 400}},
                      SmallPlan::Shape{.row_bytes = 1, .first_offset = 0},
                      SmallPlan::Shape{.row_bytes = 512, .first_offset = 4096},
                      SmallPlan::Shape{.row_bytes = 5000, .first_offset = 80},
                      SmallPlan::Shape{.row_bytes = 700,
                                       .segment_size = 3,
                                       .max_cache_rows = 20},
                      SmallPlan::Shape{.num_batches = 0},
                      SmallPlan::Shape{.num_batches = 3, .batch_nodes = 0},
                      SmallPlan::Shape{.num_nodes = 3000,
                                       .batch_nodes = 900,
                                       .row_bytes = 256}));

/// A feature file that records the order and the bytes of reads.
class WatchedFile final : public io::ReadableFile {
 public:
  explicit WatchedFile(std::unique_ptr<io::ReadableFile> file)
      : file_(std::move(file)) {}
  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) override {
    // A page that two partitions share is read twice.
    EXPECT_GE(offset + kPageBytes, end_);
    end_ = offset + out.size();
    bytes_ += out.size();
    ++reads_;
    return file_->Read(offset, out);
  }
  absl::StatusOr<io::FileInfo> Info() override { return file_->Info(); }
  const std::string& path() const override { return file_->path(); }

  uint64_t bytes() const { return bytes_; }
  int64_t reads() const { return reads_; }

 private:
  const std::unique_ptr<io::ReadableFile> file_;
  uint64_t end_ = 0;
  uint64_t bytes_ = 0;
  int64_t reads_ = 0;
};

class PackBatchesTest : public ::testing::Test {
 protected:
  absl::StatusOr<PackedLayout> PackFrom(SampleSpool& spool,
                                        io::ReadableFile& features,
                                        PackOptions options = {}) {
    options.folder = plan_.folder();
    return PackBatches(
        Posix(),
        {.trace = &spool,
         .levels = &plan_.levels(),
         .samples = &spool,
         .features = &features,
         .rows = {.first_offset = 128, .row_bytes = 100, .num_rows = 400}},
        plan_.segmentation(), plan_.layout(), options);
  }

  const SmallPlan plan_{{}};
  io::FaultyFileSystem faulty_{Posix()};
};

TEST_F(PackBatchesTest, ReadsTheFeaturesOnceInOrder) {
  const SmallPlan plan({.num_nodes = 4000, .row_bytes = 200});
  const auto spool = *SampleSpool::Open(Posix(), plan.spool_path());
  WatchedFile features(*Posix().OpenForScan(plan.features_path()));
  PackOptions options;
  options.folder = plan.folder();
  options.memory_limit_bytes = LeastMemory(plan);
  ASSERT_TRUE(
      PackBatches(
          Posix(),
          {.trace = spool.get(),
           .levels = &plan.levels(),
           .samples = spool.get(),
           .features = &features,
           .rows = {.first_offset = 128, .row_bytes = 200, .num_rows = 4000}},
          plan.segmentation(), plan.layout(), options)
          .ok());
  EXPECT_GT(features.reads(), 5);
  EXPECT_LE(
      features.bytes(),
      4000u * 200 + 128 + static_cast<uint64_t>(features.reads()) * kPageBytes);
}

TEST_F(PackBatchesTest, PacksReadLittleMoreThanTheirRows) {
  const SmallPlan plan({.num_nodes = 3000,
                        .num_batches = 4,
                        .batch_nodes = 1200,
                        .row_bytes = 512,
                        .segment_size = 1});
  for (int64_t batch = 0; batch < 4; ++batch) {
    const FileRange range = plan.layout().FeaturesRange(batch);
    ASSERT_GT(range.bytes, 300'000u);
    EXPECT_LE(static_cast<double>(range.end() - range.offset),
              1.02 * static_cast<double>(range.bytes));
    EXPECT_EQ(range.offset % kPageBytes, 0u);
  }
}

TEST_F(PackBatchesTest, RefusesTooLittleMemoryAndNamesWhatIsNeeded) {
  PackOptions options;
  options.memory_limit_bytes = LeastMemory(plan_) - 1;
  const absl::Status status = plan_.Pack(Posix(), options).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_NE(status.message().find(std::to_string(LeastMemory(plan_))),
            absl::string_view::npos)
      << status;
  EXPECT_TRUE(plan_.Files().empty());
}

TEST_F(PackBatchesTest, ADiskTooFullIsRefusedBeforeAnythingIsWritten) {
  faulty_.LimitSpace(plan_.layout().total_bytes());
  const absl::Status status = plan_.Pack(faulty_).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  for (const auto& call : faulty_.calls()) {
    EXPECT_NE(call.operation, io::Operation::kCreate) << call.path;
  }
  EXPECT_TRUE(plan_.Files().empty());
}

TEST_F(PackBatchesTest, ADiskThatFillsUpLeavesNothing) {
  const SmallPlan plan({.num_batches = 4});
  PackOptions options;
  options.threads = 2;
  int64_t nth = 1;
  for (;; ++nth) {
    faulty_.Inject({.nth = nth,
                    .effect = io::Effect::kTearWrite,
                    .status = absl::ResourceExhaustedError("full"),
                    .only = io::Operation::kWrite});
    const absl::Status status = plan.Pack(faulty_, options).status();
    if (faulty_.hits() == 0) break;
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << nth << ": " << status;
    EXPECT_TRUE(plan.Files().empty()) << nth;
  }
  EXPECT_GT(nth, 10);
}

// After any failure nothing is left; a call that succeeds and reports an error
// leaves a whole plan or none.
TEST_F(PackBatchesTest, AnyFailureLeavesNothing) {
  const SmallPlan plan({.num_batches = 4, .segment_size = 2});
  ASSERT_TRUE(plan.Pack(Posix()).ok());
  const std::map<std::string, std::string> whole = plan.Files();
  PackOptions two_threads;
  two_threads.threads = 2;
  for (const io::Effect effect : {io::Effect::kFail, io::Effect::kLoseReply}) {
    // Every failure, and some of the lost replies, which take the same paths.
    const int64_t step = effect == io::Effect::kFail ? 1 : 3;
    for (int64_t nth = 1;; nth += step) {
      ASSERT_TRUE(Posix().RemoveTree(plan.folder()).ok());
      faulty_.Inject({.nth = nth, .effect = effect});
      const absl::Status status = plan.Pack(faulty_, two_threads).status();
      if (faulty_.hits() == 0) {
        EXPECT_TRUE(status.ok()) << status;
        EXPECT_GT(nth, 40);
        break;
      }
      if (status.ok()) {
        // Only removing a scratch file failed.
        EXPECT_EQ(plan.ReadAll(Posix()), absl::OkStatus()) << nth;
        continue;
      }
      EXPECT_TRUE(absl::IsUnavailable(status)) << nth << ": " << status;
      EXPECT_TRUE(plan.Files().empty()) << nth;
    }
  }
}

// As after a kill: from some call on every call fails, removals included. If
// there is an index, the plan is whole and nothing else is left.
TEST_F(PackBatchesTest, AfterAKillASecondRunGivesTheSameBytes) {
  const SmallPlan plan({.num_batches = 4, .segment_size = 2});
  ASSERT_TRUE(plan.Pack(Posix()).ok());
  const std::map<std::string, std::string> whole = plan.Files();
  for (int64_t nth = 1;; ++nth) {
    ASSERT_TRUE(Posix().RemoveTree(plan.folder()).ok());
    faulty_.Inject({.nth = nth, .for_good = true});
    const absl::Status status = plan.Pack(faulty_).status();
    if (faulty_.hits() == 0) break;
    const auto index =
        ReadLayoutIndex(Posix(), plan.folder(), SmallPlan::kPlanId);
    // Renamed, but not known to be durable, where packing failed.
    EXPECT_TRUE(index.ok() ||
                (!status.ok() && absl::IsNotFound(index.status())))
        << nth << ": " << status << ", " << index.status();
    if (index.ok()) {
      EXPECT_TRUE(plan.Files() == whole) << nth;
    }
    ASSERT_TRUE(plan.Pack(Posix()).ok()) << nth;
    EXPECT_TRUE(plan.Files() == whole) << nth;
  }
}

// Scratch files are read back: damage on the way is found, and mostly healed.
TEST_F(PackBatchesTest, DamageOnTheWayIsFound) {
  const SmallPlan plan({.num_batches = 6, .segment_size = 3});
  ASSERT_TRUE(plan.Pack(Posix()).ok());
  const std::map<std::string, std::string> whole = plan.Files();
  int64_t nth = 1;
  for (;; ++nth) {
    faulty_.Inject({.nth = nth,
                    .effect = io::Effect::kCorruptRead,
                    .only = io::Operation::kRead});
    const absl::Status status = plan.Pack(faulty_).status();
    if (faulty_.hits() == 0) break;
    if (status.ok()) {
      EXPECT_TRUE(plan.Files() == whole) << nth;
    } else {
      EXPECT_TRUE(absl::IsDataLoss(status)) << nth << ": " << status;
      EXPECT_TRUE(plan.Files().empty()) << nth;
    }
  }
  EXPECT_GT(nth, 4);
}

TEST_F(PackBatchesTest, StopsWhereverItIs) {
  std::vector<std::string> stages;
  PackOptions count;
  count.progress = [&](const PackProgress& progress) {
    EXPECT_LE(progress.done_bytes, progress.total_bytes);
    stages.emplace_back(progress.stage);
  };
  ASSERT_TRUE(plan_.Pack(Posix(), count).ok());
  EXPECT_EQ(stages.front(), "planning");
  EXPECT_EQ(stages.back(), "ordering");
  for (size_t nth = 1; nth < stages.size(); ++nth) {
    std::stop_source stop;
    size_t calls = 0;
    PackOptions options;
    options.threads = 2;
    options.progress = [&](const PackProgress& progress) {
      if (++calls == nth) stop.request_stop();
    };
    options.stop = stop.get_token();
    const absl::Status status = plan_.Pack(Posix(), options).status();
    EXPECT_TRUE(absl::IsCancelled(status)) << nth << ": " << status;
    EXPECT_TRUE(plan_.Files().empty()) << nth;
  }
}

TEST_F(PackBatchesTest, RefusesAnotherInputThanWasMeasured) {
  const SmallPlan other({.seed = 2});
  const auto spool = *SampleSpool::Open(Posix(), other.spool_path());
  const auto features = *Posix().OpenForScan(plan_.features_path());
  EXPECT_TRUE(absl::IsFailedPrecondition(PackFrom(*spool, *features).status()));
  EXPECT_TRUE(plan_.Files().empty());
}

TEST_F(PackBatchesTest, AFeatureFileThatIsTooShortIsDataLoss) {
  const SmallPlan shorter({.num_nodes = 399});
  const auto spool = *SampleSpool::Open(Posix(), plan_.spool_path());
  const auto features = *Posix().OpenForScan(shorter.features_path());
  const absl::Status status = PackFrom(*spool, *features).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_NE(status.message().find(shorter.features_path()),
            absl::string_view::npos);
  EXPECT_TRUE(plan_.Files().empty());
}

}  // namespace
}  // namespace hearth::strategy
