#include "engine/strategy/largest_batch.h"

#include <memory>
#include <numeric>
#include <stop_token>
#include <vector>

#include "absl/status/status.h"
#include "engine/sample/neighbor_sampler.h"
#include "engine/sample/seed_order.h"
#include "engine/store/labels.h"
#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

// Node v has in-neighbors 0 .. v - 1.
class TestTopology final : public store::SingleTopology {
 public:
  using SingleTopology::SetView;
  absl::Status status() const override { return absl::OkStatus(); }
};

class MeasureBatchesTest : public ::testing::Test {
 protected:
  MeasureBatchesTest() {
    indptr_.push_back(0);
    for (int32_t node = 0; node < kNodes; ++node) {
      for (int32_t neighbor = 0; neighbor < node; ++neighbor) {
        indices_.push_back(neighbor);
      }
      indptr_.push_back(static_cast<int64_t>(indices_.size()));
    }
    topology_.SetView(
        {.indptr = indptr_, .indices = absl::MakeConstSpan(indices_)});
    std::iota(seeds_.begin(), seeds_.end(), 0);
    labels_ = store::Labels::Classes(std::vector<int32_t>(kNodes), 2);
  }

  absl::StatusOr<BatchBound> Measure(int64_t batch_size, const DryRun& run,
                                     std::stop_token stop = {},
                                     int64_t shards = 1) {
    Pass pass;
    pass.sampler = {.fanouts = {-1}};
    pass.batch_size = batch_size;
    pass.shards = shards;
    return MeasureBatches(pass, seeds_, {topology_, labels_}, run, stop);
  }

  static constexpr int32_t kNodes = 50;
  std::vector<int64_t> indptr_;
  std::vector<int32_t> indices_;
  const std::vector<int64_t> no_edges_ = std::vector<int64_t>(kNodes + 1);
  TestTopology topology_;
  std::vector<store::NodeId> seeds_ = std::vector<store::NodeId>(kNodes);
  store::Labels labels_;
};

TEST_F(MeasureBatchesTest, FindsTheLargestOfAll) {
  for (const int threads : {1, 3}) {
    const auto bound = Measure(1, {.clock = Clock::Real(), .threads = threads});
    ASSERT_TRUE(bound.ok()) << bound.status();
    EXPECT_EQ(bound->largest.num_inputs(), kNodes)
        << "the last node and all before it";
    EXPECT_EQ(bound->bound.num_inputs(), kNodes);
  }
}

TEST_F(MeasureBatchesTest, SpreadsFewSamplesOverThePass) {
  // Batches 0, 12, 25 and 37 of 50.
  const auto bound = Measure(1, {.clock = Clock::Real(), .most_batches = 4});
  ASSERT_TRUE(bound.ok());
  EXPECT_EQ(bound->largest.num_inputs(), 38);
}

TEST_F(MeasureBatchesTest, ShardsAreMeasuredOneByOne) {
  topology_.SetView(
      {.indptr = no_edges_, .indices = absl::Span<const int32_t>()});
  const auto bound = Measure(20, {.clock = Clock::Real()}, {}, /*shards=*/3);
  ASSERT_TRUE(bound.ok());
  EXPECT_EQ(bound->largest.num_inputs(), 7)
      << "seeds of 20 for the third one of 3 shards";
  EXPECT_EQ(bound->bound.nodes.back(), 7);
}

TEST_F(MeasureBatchesTest, OfNoSeeds) {
  seeds_.clear();
  const auto bound = Measure(10, {.clock = Clock::Real()});
  ASSERT_TRUE(bound.ok());
  EXPECT_EQ(bound->largest.num_inputs(), 0);
}

TEST_F(MeasureBatchesTest, StopsWhenAsked) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(
      Measure(1, {.clock = Clock::Real()}, stop.get_token()).status()));
}

}  // namespace
}  // namespace hearth::strategy
