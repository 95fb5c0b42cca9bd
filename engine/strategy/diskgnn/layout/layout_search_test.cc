#include "engine/strategy/diskgnn/layout/layout_search.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/random.h"
#include "engine/plan/access_trace.h"
#include "engine/plan/testing/vector_trace.h"
#include "engine/store/topology.h"
#include "engine/strategy/diskgnn/layout/segment_planner.h"
#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

constexpr int64_t kRowBytes = 256;

class LayoutSearchTest : public ::testing::Test {
 protected:
  void Use(uint64_t seed, int64_t num_nodes, int64_t num_batches,
           int64_t batch_size, const MemoryLevels::Rows& rows) {
    RandomStream random(seed, RandomPurpose::kGenerator);
    trace_ = std::make_unique<plan::VectorTrace>(
        plan::VectorTrace::Random(random, num_nodes, num_batches, batch_size));
    levels_ = std::make_unique<MemoryLevels>(*MemoryLevels::Choose(
        *plan::AccessCounts::Count(*trace_, num_nodes, {}), rows));
    sample_bytes_.assign(static_cast<size_t>(num_batches), 3000);
    input_ = {.trace = trace_.get(),
              .levels = levels_.get(),
              .row_bytes = kRowBytes,
              .sample_bytes = sample_bytes_};
  }

  Segmentation SegmentsOf(int64_t size, int64_t max_rows) const {
    return {.num_batches = trace_->num_batches(),
            .segment_size = size,
            .max_rows = max_rows,
            .seed = 9};
  }

  uint64_t ExactBytes(int64_t size,
                      int64_t max_rows = Segmentation::kUnbounded) {
    return MeasureLayout(input_, SegmentsOf(size, max_rows), {})->total_bytes();
  }

  uint64_t ExactReads(int64_t size,
                      int64_t max_rows = Segmentation::kUnbounded) {
    const auto planner = *SegmentPlanner::Make(*trace_, *levels_);
    return *EstimateReadBytes(input_, SegmentsOf(size, max_rows), INT64_MAX,
                              *planner, {});
  }

  std::unique_ptr<plan::VectorTrace> trace_;
  std::unique_ptr<MemoryLevels> levels_;
  std::vector<uint64_t> sample_bytes_;
  LayoutInput input_;
};

TEST_F(LayoutSearchTest, ComesWithinFivePercentOfTheBest) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const auto num_batches = static_cast<int64_t>(8 + 6 * seed);
    Use(seed, 900, num_batches, 150, {.gpu = 10, .cpu = 40});
    const uint64_t largest = ExactBytes(1);
    const uint64_t smallest = ExactBytes(num_batches);
    for (const int percent : {3, 20, 50, 80, 99}) {
      const uint64_t limit = smallest + (largest - smallest) * percent / 100;
      uint64_t best = UINT64_MAX;
      for (int64_t size = 1; size <= num_batches; ++size) {
        if (ExactBytes(size) <= limit) best = std::min(best, ExactReads(size));
      }
      const auto choice = SearchLayout(
          input_, {.disk_bytes = limit},
          {.seed = 9, .max_tried = 8, .max_sampled_batches = 64}, {});
      ASSERT_TRUE(choice.ok()) << choice.status();
      EXPECT_LE(choice->layout.total_bytes(), limit);
      EXPECT_LE(choice->num_tried, std::min<int64_t>(8, num_batches));
      EXPECT_LE(
          static_cast<double>(ExactReads(choice->segmentation.segment_size)),
          1.05 * static_cast<double>(best))
          << "seed " << seed << ", " << percent << "%: " << choice->reason;
    }
  }
}

TEST_F(LayoutSearchTest, PacksEverythingWhereItFits) {
  Use(1, 500, 20, 100, {.cpu = 20});
  const auto choice = SearchLayout(input_, {}, {}, {});
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->segmentation.segment_size, 1);
  EXPECT_EQ(choice->layout.rows.disk, 0);
  EXPECT_EQ(choice->num_tried, 0);
  EXPECT_TRUE(SearchLayout(input_, {.disk_bytes = ExactBytes(1)}, {}, {}).ok());
}

TEST_F(LayoutSearchTest, RefusesALimitBelowTheSmallestAndNamesIt) {
  Use(2, 500, 12, 100, {.cpu = 20});
  uint64_t smallest = UINT64_MAX;
  for (int64_t size = 1; size <= 12; ++size) {
    smallest = std::min(smallest, ExactBytes(size));
  }
  const auto choice =
      SearchLayout(input_, {.disk_bytes = smallest - 1}, {}, {});
  ASSERT_TRUE(absl::IsResourceExhausted(choice.status())) << choice.status();
  EXPECT_NE(choice.status().message().find(absl::StrCat(smallest, " bytes")),
            absl::string_view::npos)
      << choice.status();
  const auto fits = SearchLayout(input_, {.disk_bytes = smallest}, {}, {});
  ASSERT_TRUE(fits.ok()) << fits.status();
  EXPECT_EQ(fits->layout.total_bytes(), smallest);
}

TEST_F(LayoutSearchTest, BoundsTheDiskCacheAlone) {
  Use(3, 600, 24, 120, {.cpu = 20});
  const uint64_t limit = (ExactBytes(1) + ExactBytes(24, 100)) / 2;
  const auto choice = SearchLayout(
      input_, {.disk_bytes = limit, .max_cache_rows = 100}, {}, {});
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_LE(choice->layout.rows.disk, 100);
  EXPECT_GT(choice->layout.rows.disk, 0);
  EXPECT_LE(choice->layout.total_bytes(), limit);
  const absl::Status without =
      SearchLayout(input_, {.disk_bytes = limit, .max_cache_rows = 0}, {}, {})
          .status();
  EXPECT_TRUE(absl::IsResourceExhausted(without)) << without;
  EXPECT_NE(without.message().find(absl::StrCat(ExactBytes(1), " bytes")),
            absl::string_view::npos);
}

TEST_F(LayoutSearchTest, SaysWhatItTriedAndWhy) {
  Use(4, 600, 40, 120, {.cpu = 20});
  const uint64_t limit = (ExactBytes(1) + ExactBytes(40)) / 2;
  const auto choice =
      SearchLayout(input_, {.disk_bytes = limit}, {.max_tried = 5}, {});
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_LE(choice->num_tried, 5);
  // Some sizes are measured without being tried.
  EXPECT_EQ(std::count_if(choice->candidates.begin(), choice->candidates.end(),
                          [](const LayoutCandidate& candidate) {
                            return candidate.estimated_read_bytes.has_value();
                          }),
            choice->num_tried);
  EXPECT_EQ(choice->candidates.front().segment_size, 1);
  EXPECT_EQ(choice->candidates.back().segment_size, 40);
  for (size_t i = 1; i < choice->candidates.size(); ++i) {
    EXPECT_GT(choice->candidates[i].segment_size,
              choice->candidates[i - 1].segment_size);
  }
  EXPECT_NE(choice->reason.find(absl::StrCat(
                "segments of ", choice->segmentation.segment_size, " batches")),
            std::string::npos);
}

TEST_F(LayoutSearchTest, TheSameInputGivesTheSameChoice) {
  Use(5, 600, 30, 120, {.cpu = 20});
  const LayoutLimits limits = {.disk_bytes =
                                   (ExactBytes(1) + ExactBytes(30)) / 2};
  const auto first = SearchLayout(input_, limits, {.seed = 3}, {});
  const auto second = SearchLayout(input_, limits, {.seed = 3}, {});
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->reason, second->reason);
  EXPECT_EQ(first->layout.total_bytes(), second->layout.total_bytes());
}

TEST_F(LayoutSearchTest, SpaceIsEstimatedAsItIs) {
  for (const int64_t max_rows : {Segmentation::kUnbounded, int64_t{150}}) {
    Use(6, 900, 32, 150, {.gpu = 10, .cpu = 40});
    const auto estimates = EstimateSpace(input_, max_rows, {});
    ASSERT_TRUE(estimates.ok()) << estimates.status();
    ASSERT_EQ(estimates->size(), 32u);
    for (const int64_t size : {1, 2, 4, 8, 16, 32}) {
      const auto exact = static_cast<double>(ExactBytes(size, max_rows));
      EXPECT_NEAR(static_cast<double>((*estimates)[size - 1]), exact,
                  0.1 * exact)
          << size;
    }
  }
}

TEST_F(LayoutSearchTest, ReadsAreEstimatedFromASample) {
  Use(7, 900, 60, 150, {.gpu = 10, .cpu = 40});
  const auto planner = *SegmentPlanner::Make(*trace_, *levels_);
  for (const int64_t size : {2, 7, 20, 60}) {
    const auto exact = static_cast<double>(ExactReads(size));
    const auto estimate = EstimateReadBytes(
        input_, SegmentsOf(size, Segmentation::kUnbounded), 20, *planner, {});
    ASSERT_TRUE(estimate.ok()) << estimate.status();
    EXPECT_NEAR(static_cast<double>(*estimate), exact, 0.1 * exact) << size;
  }
}

TEST_F(LayoutSearchTest, PagesAreCountedOnce) {
  // Rows of 1000 bytes: 0 to 3 begin on page 0, and 4 lies on pages 0 and 1.
  EXPECT_EQ(CountPages({}, 1000), 0);
  EXPECT_EQ(CountPages({0, 1, 3}, 1000), 1);
  EXPECT_EQ(CountPages({0, 4}, 1000), 2);
  EXPECT_EQ(CountPages({4, 5}, 1000), 2);
  EXPECT_EQ(CountPages({5, 12, 13}, 1000), 3);
  EXPECT_EQ(CountPages({1}, 10'000), 3);
  EXPECT_EQ(CountPages({0, 1}, 10'000), 5);
  RandomStream random(1, RandomPurpose::kGenerator);
  for (int trial = 0; trial < 200; ++trial) {
    const auto row_bytes = static_cast<int64_t>(1 + random.Below(9000));
    std::vector<int64_t> rows;
    std::set<int64_t> pages;
    for (int64_t row = 0; row < 60; ++row) {
      if (random.Below(3) > 0) continue;
      rows.push_back(row);
      for (int64_t at = 0; at < row_bytes; ++at) {
        pages.insert((row * row_bytes + at) / 4096);
      }
    }
    EXPECT_EQ(CountPages(rows, row_bytes), std::ssize(pages));
  }
}

// Pages that the batches of a planned segment read, where the row of a node is
// `row_of(node)`.
template <typename RowOf>
int64_t PagesOf(const plan::VectorTrace& trace, const Segment& segment,
                const SegmentPlanner& planner, RowOf row_of) {
  int64_t pages = 0;
  for (int64_t b = segment.begin; b < segment.end; ++b) {
    std::vector<int64_t> rows;
    for (const store::NodeId node : trace.batches()[b]) {
      if (planner.LevelOf(node) == Level::kDisk) rows.push_back(row_of(node));
    }
    std::sort(rows.begin(), rows.end());
    pages += CountPages(rows, kRowBytes);
  }
  return pages;
}

TEST_F(LayoutSearchTest, ReorderingReadsLess) {
  Use(8, 20'000, 40, 1500, {.cpu = 500});
  const Segmentation segments = SegmentsOf(10, Segmentation::kUnbounded);
  const auto planner = *SegmentPlanner::Make(*trace_, *levels_);
  int64_t before = 0;
  int64_t after = 0;
  for (int64_t i = 0; i < segments.num_segments(); ++i) {
    const Segment segment = SegmentAt(segments, i);
    ASSERT_TRUE(planner->Choose(segment, {}).ok());
    ASSERT_TRUE(planner->Order(segments.seed, {}).ok());
    const auto cached = planner->cached_nodes();
    before += PagesOf(*trace_, segment, *planner, [&](store::NodeId node) {
      return std::lower_bound(cached.begin(), cached.end(), node) -
             cached.begin();
    });
    after += PagesOf(*trace_, segment, *planner, [&](store::NodeId node) {
      return planner->PlaceOf(node);
    });
  }
  EXPECT_LT(static_cast<double>(after), 0.9 * static_cast<double>(before));
}

TEST_F(LayoutSearchTest, ReturnsErrorsAndStops) {
  Use(9, 300, 10, 60, {.cpu = 10});
  const LayoutLimits limits = {.disk_bytes =
                                   (ExactBytes(1) + ExactBytes(10)) / 2};
  const int64_t before = trace_->loads();
  ASSERT_TRUE(SearchLayout(input_, limits, {}, {}).ok());
  const int64_t loads = trace_->loads() - before;
  for (int64_t load = 1; load <= loads; load += 7) {
    plan::VectorTrace trace(trace_->batches());
    trace.FailAt(load);
    input_.trace = &trace;
    EXPECT_TRUE(absl::IsDataLoss(SearchLayout(input_, limits, {}, {}).status()))
        << load;
    plan::VectorTrace stopped(trace_->batches());
    stopped.StopAt(load);
    input_.trace = &stopped;
    const absl::Status status =
        SearchLayout(input_, limits, {}, stopped.stop_token()).status();
    EXPECT_TRUE(absl::IsCancelled(status) || load + 20 > loads)
        << load << ": " << status;
  }
}

TEST_F(LayoutSearchTest, RefusesInputThatDoesNotFitTogether) {
  Use(10, 300, 10, 60, {});
  input_.row_bytes = 0;
  EXPECT_TRUE(
      absl::IsInvalidArgument(SearchLayout(input_, {}, {}, {}).status()));
  input_.row_bytes = 4;
  input_.sample_bytes = input_.sample_bytes.subspan(1);
  EXPECT_TRUE(
      absl::IsInvalidArgument(SearchLayout(input_, {}, {}, {}).status()));
}

}  // namespace
}  // namespace hearth::strategy
