#include "engine/strategy/pass_report.h"

#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

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
