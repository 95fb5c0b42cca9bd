#include "engine/plan/partition/bloom_filters.h"

#include <cstdint>

#include "engine/base/random.h"
#include "engine/plan/partition/fennel.h"
#include "engine/plan/partition/part_counts.h"
#include "gtest/gtest.h"

namespace hearth::plan {
namespace {

/// Filters with every part full: node i is in part i % parts.
BloomFilters Full(int64_t nodes, int parts) {
  BloomFilters filters = *BloomFilters::Make(nodes, parts);
  const int64_t members = PartCapacity(nodes, parts) * parts;
  for (int64_t node = 0; node < members; ++node) {
    filters.Insert(node, static_cast<int>(node % parts));
  }
  return filters;
}

TEST(BloomFiltersTest, ForgetNoNode) {
  for (const int parts : {1, 2, 7, 63, 64, 65, 100, 128, 129, 256}) {
    const int64_t nodes = 40 * parts;
    const BloomFilters filters = Full(nodes, parts);
    for (int64_t node = 0; node < PartCapacity(nodes, parts) * parts; ++node) {
      PartCounts counts;
      filters.Count(node, counts);
      EXPECT_EQ(counts[static_cast<int>(node % parts)], 1)
          << "node " << node << " of " << parts << " parts";
    }
  }
}

TEST(BloomFiltersTest, TakeFewOthersForMembers) {
  for (const int parts : {1, 10, 100, 200}) {
    const int64_t nodes = 2000 * parts;
    const BloomFilters filters = Full(nodes, parts);
    int64_t taken = 0;
    constexpr int64_t kStrangers = 20'000;
    for (int64_t i = 0; i < kStrangers; ++i) {
      PartCounts counts;
      filters.Count(2 * nodes + i, counts);
      counts.ForEach([&](int part, int64_t count) {
        EXPECT_LT(part, parts);
        taken += count;
      });
    }
    const double rate =
        static_cast<double>(taken) / static_cast<double>(kStrangers * parts);
    EXPECT_LE(rate, 1.2 * BloomFilters::kFalsePositives) << parts << " parts";
    // Filters that are much larger than said would have fewer.
    EXPECT_GE(rate, 0.8 * BloomFilters::kFalsePositives) << parts << " parts";
  }
}

TEST(BloomFiltersTest, OfOnePartTellNothingOfAnother) {
  BloomFilters filters = *BloomFilters::Make(1000, 100);
  for (int64_t node = 0; node < 10; ++node) filters.Insert(node, 64);
  PartCounts counts;
  for (int64_t node = 0; node < 1000; ++node) filters.Count(node, counts);
  counts.ForEach([](int part, int64_t) { EXPECT_EQ(part, 64); });
  EXPECT_GE(counts[64], 10);
}

TEST(BloomFiltersTest, TakeTwoThirdsOfAByteANode) {
  for (const int parts : {1, 2, 65, 100, 256}) {
    EXPECT_LE(BloomFilters::Bytes(1'000'000, parts), 700'000) << parts;
  }
}

}  // namespace
}  // namespace hearth::plan
