#include "engine/strategy/gids/sizes.h"

#include <cstdint>

#include "engine/io/coalesce.h"
#include "engine/sample/batch_shape.h"
#include "engine/strategy/batch_bound.h"
#include "engine/strategy/gids/options.h"
#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

constexpr uint64_t kRowBytes = 4096;
// A tenth of them is in the constant buffer by default.
const io::RowLayout kRows = {
    .first_offset = 0, .row_bytes = kRowBytes, .num_rows = 100'000};

BatchBound BatchesOf(int64_t rows) {
  const sample::BatchShape shape = {.nodes = {rows, 10}, .edges = {rows}};
  return {.largest = shape, .likely = shape, .bound = shape};
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
  // Those of two shards have twice the lines.
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
