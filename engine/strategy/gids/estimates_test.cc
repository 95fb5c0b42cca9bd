#include "engine/strategy/gids/estimates.h"

#include <cstdint>
#include <memory>
#include <string>

#include "engine/base/clock.h"
#include "engine/io/block_device.h"
#include "engine/io/read_plan.h"
#include "engine/io/read_probe.h"
#include "engine/io/read_queue.h"
#include "engine/sample/batch_shape.h"
#include "engine/strategy/gids/gids.h"
#include "engine/strategy/pass.h"
#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

constexpr uint64_t kRowBytes = 4096;
// A tenth of the rows is in the constant buffer by default.
const io::RowLayout kRows = {
    .first_offset = 0, .row_bytes = kRowBytes, .num_rows = 100'000};

BatchBound BatchesOf(int64_t rows) {
  const sample::BatchShape shape = {.nodes = {rows, 10}, .edges = {rows}};
  return {.largest = shape, .likely = shape, .bound = shape};
}

TEST(GidsSizesTest, ReadsOverlapOnAllDisks) {
  const io::ReadProfile disk = {.peak_reads_per_second = 1000,
                                .depth = 8,
                                .first_seconds = 0.01,
                                .last_seconds = 0.01};
  // 0.95 / 0.05 * 1,000 * 0.02 reads of each disk.
  EXPECT_EQ(TargetReads({.slowest = disk, .count = 1, .depth = 8}), 380);
  EXPECT_EQ(TargetReads({.slowest = disk, .count = 3, .depth = 24}), 1140);
  EXPECT_EQ(TargetReads({.slowest = disk, .count = 1, .depth = 500}), 500);
}

TEST(GidsSizesTest, ReadsInFlightAreThoseOfAllDisks) {
  EXPECT_EQ(MostDepth({}, 3), 1024) << "they are not used";
  EXPECT_EQ(MostDepth({.striped = true}, 1), 1024);
  EXPECT_EQ(MostDepth({.striped = true}, 3), 3072);
  EXPECT_EQ(MostDepth({.striped = true}, 7), 4096);
  EXPECT_EQ(MostDepth({.io_depth = 10, .striped = true}, 3), 10);
}

TEST(GidsSizesTest, DisksAreTakenToBeLikeTheSlowestThatHasRows) {
  const auto queues = *io::ReadQueues::Create();
  const auto one = io::NewMemoryDevice(std::string(1 << 20, 'x'));
  const auto two = io::NewMemoryDevice(std::string(1 << 20, 'x'));
  const auto none = io::NewMemoryDevice("");
  io::BlockDevice* const files[] = {one.get(), two.get(), none.get()};
  const auto measure = [&](int io_depth) {
    return *MeasureDisks({.io_depth = io_depth, .striped = true}, kRows, files,
                         *queues, Clock::Real(), {});
  };
  // The depth that was asked for is shared by all disks.
  EXPECT_EQ(measure(6).depth, 6);
  EXPECT_EQ(measure(6).slowest.depth, 2u);
  EXPECT_EQ(measure(1).depth, 1);
  const MeasuredDisks disks = measure(0);
  EXPECT_EQ(disks.count, 3);
  EXPECT_GE(disks.depth, 3 * static_cast<int>(disks.slowest.depth));
  EXPECT_GT(disks.peak_reads_per_second(), 0);
}

TEST(GidsSizesTest, StagesOneBatchWhereTheCachesHoldAllRows) {
  const BatchBound batches = BatchesOf(30'000);
  const uint64_t largest = LargestStagedBytes(kRows, batches);
  EXPECT_GT(largest, GidsOptions::kLeastStaging);
  // Lines for four batches are more than the other 90,000 rows need.
  EXPECT_EQ(StagingBytes({}, kRows, batches, /*shards=*/1), largest);
  EXPECT_EQ(StagingBytes({.window_cache_bytes = 90'000 * kRowBytes}, kRows,
                         batches, /*shards=*/1),
            largest);
  EXPECT_EQ(StagingBytes({.window_cache_bytes = 89'999 * kRowBytes}, kRows,
                         batches, /*shards=*/1),
            2 * largest);
}

TEST(GidsSizesTest, StagesTwoBatchesWhereTheCachesDoNot) {
  const BatchBound batches = BatchesOf(20'000);
  const uint64_t largest = LargestStagedBytes(kRows, batches);
  EXPECT_EQ(StagingBytes({}, kRows, batches, /*shards=*/1), 2 * largest);
  // Batches of two such shards have twice the lines.
  EXPECT_EQ(StagingBytes({}, kRows, batches, /*shards=*/2), largest);
}

TEST(GidsSizesTest, StagingHasALeastSizeUnlessItIsGiven) {
  EXPECT_EQ(StagingBytes({}, kRows, BatchesOf(10), /*shards=*/1),
            GidsOptions::kLeastStaging);
  EXPECT_EQ(
      StagingBytes({.staging_bytes = 5}, kRows, BatchesOf(10), /*shards=*/1),
      5u);
}

}  // namespace
}  // namespace hearth::strategy
