#include "engine/strategy/pass.h"

#include <string>
#include <utility>

#include "gtest/gtest.h"

namespace hearth::strategy {

namespace {

using std::string_literals::operator""s;

TEST(BatchBoundTest, TheMarginEndsAtTheBound) {
  const BatchBound batches = {
      .largest = {.nodes = {80, 80, 8}, .edges = {160, 800}},
      .likely = {.nodes = {90, 90, 9}, .edges = {180, 900}},
      .bound = {.nodes = {1000, 85, 8}, .edges = {170, 1000}}};
  EXPECT_EQ(batches.WithMargin(),
            (sample::BatchShape{.nodes = {90, 85, 8}, .edges = {170, 900}}));
}

TEST(DescribeSamplerTest, IsAllThatDiffersFromThePlain) {
  sample::NeighborSamplerOptions sampler = {.fanouts = {5, -1}};
  EXPECT_EQ(DescribeSampler(sampler), std::pair("fan-outs"s, "5,-1"s));
  sampler.fanouts_of = {{}, {2, 3}};
  EXPECT_EQ(DescribeSampler(sampler),
            std::pair("fan-outs"s, "5,-1; of edge type 1: 2,3"s));
  sampler.once = true;
  EXPECT_EQ(DescribeSampler(sampler),
            std::pair("fan-outs"s,
                      "5,-1; of edge type 1: 2,3; each node draws once"s));
  EXPECT_EQ(DescribeSampler({.fanouts = {-1}, .layer_nodes = {7}}),
            std::pair("nodes per layer"s, "7"s));
}

TEST(BatchBoundTest, OfNoBatches) {
  EXPECT_EQ(BatchBound{}.WithMargin(), sample::BatchShape{});
}

// A batch of 10 seeds with this number of inputs and edges.
sample::BatchShape Batch(int64_t inputs, int64_t edges) {
  return {.nodes = {inputs, 10}, .edges = {edges}};
}

TEST(BatchSpreadTest, FewBatchesHaveAnEighthAbove) {
  BatchSpread spread;
  EXPECT_EQ(spread.Likely(), sample::BatchShape{});
  for (int i = 0; i < 29; ++i) spread.Add(Batch(800, 1600), 10);
  EXPECT_EQ(spread.largest(), Batch(800, 1600));
  EXPECT_EQ(spread.Likely(),
            (sample::BatchShape{.nodes = {900, 11}, .edges = {1800}}));
}

TEST(BatchSpreadTest, ManyThatAreAlikeHaveEightDeviations) {
  BatchSpread spread;
  // The mean of the inputs is 1000, their deviation 5; edges are all equal.
  for (int i = 0; i < 2000; ++i) {
    spread.Add(Batch(i % 2 == 0 ? 995 : 1005, 2000), 10);
  }
  EXPECT_EQ(spread.Likely(),
            (sample::BatchShape{.nodes = {1041, 10}, .edges = {2000}}));
}

TEST(BatchSpreadTest, ManyThatDifferHaveAnEighthAbove) {
  BatchSpread spread;
  for (int i = 0; i < 2000; ++i)
    spread.Add(Batch(i % 2 == 0 ? 80 : 800, 8), 10);
  EXPECT_EQ(spread.Likely().num_inputs(), 900);
}

TEST(BatchSpreadTest, NoneIsBelowTheLargest) {
  BatchSpread spread;
  for (int i = 0; i < 2000; ++i) spread.Add(Batch(1000, 2000), 10);
  spread.Add(Batch(1100, 2000), 10);
  EXPECT_EQ(spread.Likely().num_inputs(), 1100);
}

TEST(BatchSpreadTest, AShortBatchTellsNothingOfTheSpread) {
  BatchSpread spread;
  for (int i = 0; i < 50; ++i) spread.Add(Batch(1000, 2000), 10);
  spread.Add({.nodes = {10, 1}, .edges = {9}}, 10);
  EXPECT_EQ(spread.Likely(), Batch(1000, 2000));
}

TEST(NumBatchesTest, TheLastOneMayBeShort) {
  EXPECT_EQ(NumBatches(0, 10), 0);
  EXPECT_EQ(NumBatches(10, 10), 1);
  EXPECT_EQ(NumBatches(11, 10), 2);
}

PassReport Part(int64_t rows) {
  PassReport report;
  report.seconds = 1;
  report.batches = 2;
  report.rows_needed = 3 * rows;
  report.hits = {{"near", rows}, {"far", rows}};
  report.rows_read = rows;
  report.list_hits = {{"lists", 2 * rows}};
  report.lists_read = rows + 1;
  report.read_ops = 4;
  report.stages = {{.name = "train", .threads = 1, .items = 2}};
  report.phases = {{"plan", 0.5}};
  return report;
}

TEST(AccumulateTest, AddsUpFigures) {
  PassReport whole;
  Accumulate(Part(5), whole);
  Accumulate(Part(7), whole);
  EXPECT_EQ(whole.seconds, 2);
  EXPECT_EQ(whole.batches, 4);
  EXPECT_EQ(whole.rows_needed, 36);
  ASSERT_EQ(whole.hits.size(), 2u);
  EXPECT_EQ(whole.hits[1].level, "far");
  EXPECT_EQ(whole.hits[1].rows, 12);
  EXPECT_EQ(whole.rows_read, 12);
  EXPECT_EQ(whole.read_ops, 8);
  ASSERT_EQ(whole.list_hits.size(), 1u);
  EXPECT_EQ(whole.list_hits[0].lists, 24);
  EXPECT_EQ(whole.lists_read, 14);
  EXPECT_EQ(whole.stages[0].items, 4);
  EXPECT_EQ(whole.phases[0].seconds, 1);
}

TEST(AccumulateTest, APartWithoutBatchesChangesNothing) {
  PassReport whole = Part(5);
  Accumulate({}, whole);
  EXPECT_EQ(whole.batches, 2);
  EXPECT_EQ(whole.rows_read, 5);
}

TEST(AccumulateTest, WhatOnePartDoesNotKnowIsUnknown) {
  PassReport whole = Part(5);
  PassReport part = Part(7);
  part.rows_read.reset();
  Accumulate(part, whole);
  EXPECT_FALSE(whole.rows_read.has_value());
  EXPECT_EQ(whole.read_ops, 8);
}

}  // namespace

}  // namespace hearth::strategy
