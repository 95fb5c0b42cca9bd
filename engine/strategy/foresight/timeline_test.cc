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
      EXPECT_LE(spans.back().end - at,
                spans.back().look_end - spans.back().plan_begin);
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

TEST_F(TimelineTest, TheFirstGenerationHasAsManyEpochsAsAsked) {
  const PassSequence sequence = Sequence(4, {0, 4, 1, 4, 2, 4, 3});
  EXPECT_EQ(Cut(Timeline(sequence, 0.25)).front().end, 25);
  EXPECT_EQ(Cut(Timeline(sequence, 0.001)).front().end, 1);
  EXPECT_EQ(Cut(Timeline(sequence, 2)).front().end, 200);
  // 460 shards, of which fewer than a quarter are left.
  EXPECT_EQ(Cut(Timeline(sequence, 4)).size(), 1u);
  // All of a repetition, which looks ahead to the next one's first pass.
  const std::vector<GenerationSpan> spans =
      Cut(Timeline(Sequence(2, {0, 2, 1, 2, 0, 2, 1, 2}), 8));
  ASSERT_EQ(spans.size(), 2u);
  for (const GenerationSpan& span : spans) {
    EXPECT_TRUE(span.fills);
    EXPECT_TRUE(span.closes);
    EXPECT_EQ(span.plan_begin, 0);
    EXPECT_EQ(span.look_end, 340);
  }
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
    EXPECT_TRUE(spans[i].repeats) << i;
    EXPECT_EQ(spans[i].closes, i % 2 == 1) << i;
    EXPECT_EQ(spans[i].plan_begin, spans[i % 2].begin) << i;
    EXPECT_EQ(spans[i].begin - spans[i % 2].begin,
              static_cast<int64_t>(i / 2) * 240);
    EXPECT_EQ(spans[i].end - spans[i].begin,
              spans[i % 2].end - spans[i % 2].begin);
    EXPECT_EQ(spans[i].look_end, spans[i % 2].look_end) << i;
  }
  EXPECT_EQ(spans[1].look_end, 340) << "the beginning is look-ahead of the end";
}

TEST_F(TimelineTest, WhatFollowsRepetitionsGoesOnOrBeginsOnceMore) {
  // Pass 0, validation, pass 1, validation, twice; then pass 1 and validation.
  const Timeline other(Sequence(2, {0, 2, 1, 2, 0, 2, 1, 2, 1, 2}));
  GenerationSpan rest = other.GenerationAt(480, 1 << 20);
  EXPECT_FALSE(rest.fills);
  EXPECT_FALSE(rest.repeats);
  EXPECT_EQ(rest.plan_begin, 480);
  EXPECT_EQ(rest.end, 600);
  EXPECT_EQ(other.CycleBegin(500), 240);
  // The same with pass 0: it begins as all repetitions.
  const Timeline part(Sequence(2, {0, 2, 1, 2, 0, 2, 1, 2, 0, 2}));
  rest = part.GenerationAt(480, 1 << 20);
  EXPECT_TRUE(rest.fills);
  EXPECT_FALSE(rest.repeats);
  EXPECT_EQ(rest.end, 530);
  EXPECT_EQ(part.CycleBegin(500), 480);
}

TEST_F(TimelineTest, GenerationsAreNoLongerThanAsked) {
  for (const GenerationSpan& span :
       Cut(Timeline(Sequence(3, {0, 3, 1, 3, 2, 3})), 16)) {
    EXPECT_LE(span.end - span.begin, 16);
  }
}

TEST_F(TimelineTest, BeginsInTheMiddleOfAPass) {
  const Timeline timeline(Sequence(2, {1, 2, 0}), 0.5, 90);
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
