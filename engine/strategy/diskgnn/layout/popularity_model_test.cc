#include "engine/strategy/diskgnn/layout/popularity_model.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/random.h"
#include "engine/plan/testing/vector_trace.h"
#include "engine/strategy/diskgnn/layout/layout_search.h"
#include "engine/strategy/diskgnn/layout/segment_planner.h"
#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

using plan::AccessCounts;
using plan::VectorTrace;
using Batches = VectorTrace::Batches;

constexpr int64_t kNodes = 20000;
constexpr int64_t kTotal = 400;

// Node i is in a batch with a probability that falls with i, as in graphs with
// hubs: the first nodes are in all batches, most nodes in few or none.
Batches SkewedBatches() {
  Batches batches(static_cast<size_t>(kTotal));
  RandomStream random(3, RandomPurpose::kGenerator);
  for (auto& batch : batches) {
    for (int64_t node = 0; node < kNodes; ++node) {
      const double p =
          std::min(1.0, 40 / std::pow(static_cast<double>(node + 1), 0.9));
      if (random.UniformFloat() < p) batch.push_back(node);
    }
  }
  return batches;
}

Batches Every(const Batches& batches, size_t step) {
  Batches some;
  for (size_t i = step / 2; i < batches.size(); i += step) {
    some.push_back(batches[i]);
  }
  return some;
}

// Counts the rows of the layout of a trace.
PopularityModel::Rows Measure(const Batches& batches, int64_t memory_rows,
                              int64_t segment_size, int64_t max_cache_rows) {
  VectorTrace trace(batches);
  const auto counts = AccessCounts::Count(trace, kNodes, {});
  const auto levels =
      MemoryLevels::Choose(*counts, {.gpu = 0, .cpu = memory_rows});
  const std::vector<uint64_t> sizes(batches.size(), 100);
  const auto layout = MeasureLayout({.trace = &trace,
                                     .levels = &*levels,
                                     .row_bytes = 64,
                                     .sample_bytes = sizes},
                                    {.num_batches = trace.num_batches(),
                                     .segment_size = segment_size,
                                     .max_rows = max_cache_rows},
                                    {});
  PopularityModel::Rows rows;
  for (const Chunk& chunk : layout->chunks) {
    rows.cpu += static_cast<double>(chunk.counts.cpu);
    rows.disk += static_cast<double>(chunk.counts.disk);
    rows.packed += static_cast<double>(chunk.counts.packed);
  }
  rows.disk_cache = static_cast<double>(layout->rows.disk);
  return rows;
}

void ExpectNear(double actual, double expected, double part) {
  EXPECT_NEAR(actual, expected, part * expected + 1);
}

class PopularityModelTest : public ::testing::Test {
 protected:
  static PopularityModel Fit(const Batches& sample, int64_t total) {
    VectorTrace trace(sample);
    const auto counts = AccessCounts::Count(trace, kNodes, {});
    return PopularityModel(*counts, trace.num_batches(), total);
  }

  const Batches batches_ = SkewedBatches();
};

TEST_F(PopularityModelTest, ForecastsEveryLevelFromATenthOfTheBatches) {
  const PopularityModel model = Fit(Every(batches_, 10), kTotal);
  for (const int64_t memory_rows : {0, 200, 2000, 6000}) {
    for (const int64_t segment_size : {1, 4, 40, 100, 400}) {
      SCOPED_TRACE(std::to_string(memory_rows) +
                   " rows in memory, segments of " +
                   std::to_string(segment_size));
      const auto expected = Measure(batches_, memory_rows, segment_size,
                                    Segmentation::kUnbounded);
      const auto rows = model.ForecastRows(memory_rows, segment_size,
                                           Segmentation::kUnbounded);
      ExpectNear(rows.cpu, expected.cpu, 0.05);
      ExpectNear(rows.cpu + rows.disk + rows.packed,
                 expected.cpu + expected.disk + expected.packed, 0.02);
      const double all = model.num_accesses();
      EXPECT_NEAR(rows.disk, expected.disk, 0.03 * all);
      EXPECT_NEAR(rows.packed, expected.packed, 0.03 * all);
      EXPECT_NEAR(rows.disk_cache, expected.disk_cache, 0.03 * all);
    }
  }
}

TEST_F(PopularityModelTest, IsNearerThanTheSampleItself) {
  // Memory holds about as many rows as the sample has nodes.
  const Batches sample = Every(batches_, 20);
  const auto expected = Measure(batches_, 3000, 1, Segmentation::kUnbounded);
  const auto naive = Measure(sample, 3000, 1, Segmentation::kUnbounded);
  const PopularityModel model = Fit(sample, kTotal);
  const auto rows = model.ForecastRows(3000, 1, Segmentation::kUnbounded);
  const double all = expected.cpu + expected.packed;
  const double truth = expected.cpu / all;
  const double of_model = rows.cpu / model.num_accesses();
  const double of_sample = naive.cpu / (naive.cpu + naive.packed);
  EXPECT_GT(of_sample, truth + 0.02);
  EXPECT_LT(std::abs(of_model - truth), 0.5 * (of_sample - truth));
}

TEST_F(PopularityModelTest, SharesABoundedDiskCacheAmongSegments) {
  const PopularityModel model = Fit(Every(batches_, 10), kTotal);
  const auto expected = Measure(batches_, 200, 50, 4000);
  const auto rows = model.ForecastRows(200, 50, 4000);
  ExpectNear(rows.disk_cache, expected.disk_cache, 0.01);
  ExpectNear(rows.disk, expected.disk, 0.08);
  ExpectNear(rows.packed, expected.packed, 0.08);
}

TEST_F(PopularityModelTest, OneBatchWillDo) {
  const PopularityModel model = Fit({batches_[0]}, 2);
  const auto rows = model.ForecastRows(0, 1, 0);
  EXPECT_DOUBLE_EQ(rows.packed, 2.0 * static_cast<double>(batches_[0].size()));
  EXPECT_EQ(rows.cpu, 0);
  EXPECT_EQ(rows.disk_cache, 0);
}

TEST_F(PopularityModelTest, WithoutAccessesThereIsNothing) {
  const PopularityModel model = Fit({{}, {}}, 10);
  const auto rows = model.ForecastRows(5, 10, Segmentation::kUnbounded);
  EXPECT_EQ(rows.cpu + rows.disk + rows.packed + rows.disk_cache, 0);
}

}  // namespace
}  // namespace hearth::strategy
