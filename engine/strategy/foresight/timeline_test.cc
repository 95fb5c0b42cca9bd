#include "engine/strategy/foresight/timeline.h"

#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <vector>

#include "engine/sample/seed_order.h"
#include "engine/store/topology.h"
#include "engine/strategy/pass.h"
#include "engine/strategy/pass_sequence.h"
#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

class TimelineTest : public ::testing::Test {
 protected:
  static std::unique_ptr<sample::SeedOrder> OrderOf(int64_t num_seeds) {
    std::vector<store::NodeId> seeds(static_cast<size_t>(num_seeds));
    std::iota(seeds.begin(), seeds.end(), 0);
    return sample::NewSequentialOrder(std::move(seeds));
  }

  // 100 batches.
  Pass Training(uint64_t key) const {
    return {.order = train_.get(),
            .sampler = {.fanouts = {2}},
            .batch_size = 10,
            .epoch_key = key};
  }
  // 20 batches.
  Pass Validation() const {
    Pass pass = Training(1000);
    pass.order = valid_.get();
    return pass;
  }
  // Passes 0 .. `keys - 1` are training, the last one is validation.
  PassSequence Sequence(uint64_t keys, std::vector<size_t> order) const {
    PassSequence sequence;
    for (uint64_t key = 0; key < keys; ++key) {
      sequence.passes.push_back(Training(key));
    }
    sequence.passes.push_back(Validation());
    sequence.order = std::move(order);
    return sequence;
  }

  static std::vector<GenerationSpan> Cut(const Timeline& timeline,
                                         int64_t most = 1 << 20) {
    std::vector<GenerationSpan> spans;
    for (int64_t at = 0; at < timeline.size(); at = spans.back().end) {
      spans.push_back(timeline.GenerationAt(at, most));
      EXPECT_EQ(spans.back().begin, at);
      EXPECT_GT(spans.back().end, at);
      EXPECT_LE(spans.back().end, spans.back().look_end);
      EXPECT_LE(spans.back().look_end, timeline.size());
    }
    return spans;
  }

  const std::unique_ptr<sample::SeedOrder> train_ = OrderOf(1000);
  const std::unique_ptr<sample::SeedOrder> valid_ = OrderOf(200);
};

TEST_F(TimelineTest, PositionsCountTheShardsOfAllRuns) {
  const Timeline timeline(Sequence(2, {0, 2, 1, 2}));
  EXPECT_EQ(timeline.size(), 240);
  EXPECT_EQ(timeline.At(0).pass, 0u);
  EXPECT_EQ(timeline.At(99).shard, 99);
  EXPECT_EQ(timeline.At(100).pass, 2u);
  EXPECT_EQ(timeline.At(119).shard, 19);
  EXPECT_EQ(timeline.At(120).pass, 1u);
  EXPECT_EQ(timeline.At(239).pass, 2u);
  EXPECT_EQ(timeline.Find(Training(0), 7, 0), 7);
  EXPECT_EQ(timeline.Find(Training(0), 7, 8), std::nullopt);
  EXPECT_EQ(timeline.Find(Validation(), 0, 0), 100);
  EXPECT_EQ(timeline.Find(Validation(), 0, 101), 220);
  EXPECT_TRUE(timeline.Comes(0, 99));
  EXPECT_FALSE(timeline.Comes(0, 100));
  EXPECT_TRUE(timeline.Comes(2, 239));
  EXPECT_TRUE(timeline.Knows(Training(1)));
  EXPECT_FALSE(timeline.Knows(Training(2)));
  Pass other = Training(1);
  other.sampler.fanouts = {3};
  EXPECT_FALSE(timeline.Knows(other));
}

TEST_F(TimelineTest, GenerationsGrowFromHalfAPass) {
  std::vector<size_t> order;
  for (size_t epoch = 0; epoch < 40; ++epoch) order.push_back(epoch);
  const std::vector<GenerationSpan> spans = Cut(Timeline(Sequence(40, order)));
  std::vector<int64_t> ends;
  for (const GenerationSpan& span : spans) ends.push_back(span.end);
  EXPECT_EQ(ends,
            (std::vector<int64_t>{50, 300, 1100, 1900, 2700, 3500, 4000}));
  EXPECT_TRUE(spans[0].fills);
  EXPECT_EQ(spans[0].look_end, 100) << "the rest of the pass";
  EXPECT_FALSE(spans[1].fills);
  for (const GenerationSpan& span : spans) EXPECT_FALSE(span.repeats);
  EXPECT_EQ(spans[1].look_end, 400) << "a pass, up to the end of one";
  EXPECT_EQ(spans.back().look_end, 4000);
}

TEST_F(TimelineTest, GenerationsEndWherePassesRepeat) {
  std::vector<size_t> order;
  for (int epoch = 0; epoch < 10; ++epoch) {
    order.push_back(static_cast<size_t>(epoch % 2));
    order.push_back(2);
  }
  const Timeline timeline(Sequence(2, order));
  const std::vector<GenerationSpan> spans = Cut(timeline);
  // Each repetition of 240 shards is cut as the first one.
  ASSERT_EQ(spans.size(), 10u);
  for (size_t i = 0; i < spans.size(); ++i) {
    EXPECT_EQ(spans[i].fills, i % 2 == 0) << i;
    EXPECT_EQ(spans[i].repeats, i < 8) << i;
    EXPECT_EQ(spans[i].closes, i < 8 && i % 2 == 1) << i;
    EXPECT_EQ(spans[i].begin - spans[i % 2].begin,
              static_cast<int64_t>(i / 2) * 240);
    if (i + 2 >= spans.size()) continue;
    EXPECT_EQ(spans[i].end - spans[i].begin,
              spans[i % 2].end - spans[i % 2].begin);
    EXPECT_EQ(spans[i].look_end - spans[i].begin,
              spans[i % 2].look_end - spans[i % 2].begin)
        << "the beginning is look-ahead of the end";
  }
}

TEST_F(TimelineTest, GenerationsAreNoLongerThanAsked) {
  for (const GenerationSpan& span :
       Cut(Timeline(Sequence(3, {0, 3, 1, 3, 2, 3})), 16)) {
    EXPECT_LE(span.end - span.begin, 16);
  }
}

TEST_F(TimelineTest, BeginsInTheMiddleOfAPass) {
  const Timeline timeline(Sequence(2, {1, 2, 0}), 90);
  EXPECT_EQ(timeline.size(), 130);
  EXPECT_EQ(timeline.At(0).shard, 90);
  EXPECT_EQ(timeline.At(10).shard, 0);
  EXPECT_EQ(timeline.At(10).pass, 2u);
  EXPECT_EQ(timeline.Find(Training(1), 95, 0), 5);
  EXPECT_EQ(timeline.Find(Training(1), 5, 0), std::nullopt);
  EXPECT_EQ(Cut(timeline).front().end, 50);
}

TEST_F(TimelineTest, AnotherOrderGoesOnBehindThePassThatCame) {
  const Timeline timeline(Sequence(3, {0, 3, 1, 3, 2, 3}));
  EXPECT_EQ(timeline.SequenceFrom(Training(2), 0).order,
            (std::vector<size_t>{2, 3}));
  EXPECT_EQ(timeline.SequenceFrom(Validation(), 0).order,
            (std::vector<size_t>{3, 1, 3, 2, 3}));
  // The pass does not come again.
  EXPECT_EQ(timeline.SequenceFrom(Training(0), 250).order,
            (std::vector<size_t>{0, 2, 3}));
}

}  // namespace
}  // namespace hearth::strategy
