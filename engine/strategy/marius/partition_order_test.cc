#include "engine/strategy/marius/partition_order.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/base/random.h"
#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

RandomStream StreamOf(uint64_t seed) {
  return RandomStream(seed, RandomPurpose::kPartitionBuffer);
}

void ExpectSets(const std::vector<PartitionSet>& sets, int32_t partitions,
                int32_t capacity) {
  for (const PartitionSet& set : sets) {
    EXPECT_LE(static_cast<int32_t>(set.size()), capacity);
    EXPECT_TRUE(std::is_sorted(set.begin(), set.end()));
    EXPECT_EQ(std::set<int32_t>(set.begin(), set.end()).size(), set.size());
    for (const int32_t partition : set) {
      EXPECT_GE(partition, 0);
      EXPECT_LT(partition, partitions);
    }
  }
}

// Unordered pairs that are in a set together.
std::set<std::pair<int32_t, int32_t>> PairsThatMeet(
    const std::vector<PartitionSet>& sets) {
  std::set<std::pair<int32_t, int32_t>> pairs;
  for (const PartitionSet& set : sets) {
    for (const int32_t a : set) {
      for (const int32_t b : set) {
        if (a < b) pairs.emplace(a, b);
      }
    }
  }
  return pairs;
}

size_t AllPairs(int32_t partitions) {
  return static_cast<size_t>(partitions) * (partitions - 1) / 2;
}

TEST(RandomSetTest, HasEachPartitionAsOften) {
  RandomStream random = StreamOf(1);
  std::vector<int> times(10);
  for (int i = 0; i < 2000; ++i) {
    const PartitionSet set = RandomSet(10, 3, random);
    ASSERT_EQ(set.size(), 3u);
    ExpectSets({set}, 10, 3);
    for (const int32_t partition : set) ++times[partition];
  }
  for (const int count : times) EXPECT_NEAR(count, 600, 100);
}

TEST(DispersedOrderTest, LoadsEachPartitionOnce) {
  for (int32_t partitions = 1; partitions <= 20; ++partitions) {
    for (int32_t capacity = 1; capacity <= partitions; ++capacity) {
      for (int32_t step = 1; step <= capacity; ++step) {
        RandomStream random = StreamOf(partitions * 100 + capacity);
        const std::vector<PartitionSet> sets =
            DispersedOrder(partitions, capacity, step, random);
        ExpectSets(sets, partitions, capacity);
        EXPECT_EQ(CountLoads(sets), partitions);
        EXPECT_EQ(static_cast<int32_t>(sets.size()),
                  1 + (partitions - capacity + step - 1) / step);
        for (const PartitionSet& set : sets) {
          EXPECT_EQ(static_cast<int32_t>(set.size()), capacity);
        }
      }
    }
  }
}

TEST(BetaOrderTest, AllPairsMeetWithFewLoads) {
  for (int32_t partitions = 1; partitions <= 24; ++partitions) {
    for (int32_t capacity = 2; capacity <= 8; ++capacity) {
      RandomStream random = StreamOf(partitions * 100 + capacity);
      const std::vector<PartitionSet> sets =
          BetaOrder(partitions, capacity, random);
      ExpectSets(sets, partitions, capacity);
      EXPECT_EQ(PairsThatMeet(sets).size(), AllPairs(partitions));
      for (size_t i = 1; i < sets.size(); ++i) {
        EXPECT_EQ(CountLoads({sets[i - 1], sets[i]}),
                  static_cast<int64_t>(sets[i - 1].size()) + 1);
      }
      const int64_t least = LeastPairLoads(partitions, capacity);
      EXPECT_GE(CountLoads(sets), least);
      // Near the bound, though not on it.
      EXPECT_LE(CountLoads(sets), least + least / 4 + capacity)
          << partitions << " " << capacity;
    }
  }
}

TEST(LeastPairLoadsTest, IsReachedByTwoPartitionsAtATime) {
  EXPECT_EQ(LeastPairLoads(4, 4), 4);
  EXPECT_EQ(LeastPairLoads(3, 4), 3);
  // 6 pairs, one at first, then one for each load.
  EXPECT_EQ(LeastPairLoads(4, 2), 7);
  RandomStream random = StreamOf(1);
  EXPECT_EQ(CountLoads(BetaOrder(4, 2, random)), 7);
  // 120 pairs, 6 at first, then 3 for each.
  EXPECT_EQ(LeastPairLoads(16, 4), 42);
}

TEST(BetaOrderTest, DiffersByItsRandomNumbersAlone) {
  const auto order = [](uint64_t seed) {
    RandomStream random = StreamOf(seed);
    return BetaOrder(12, 4, random);
  };
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(2));
}

TEST(CometOrderTest, AllPairsMeetAndGroupsMoveTogether) {
  for (const auto& [partitions, capacity, group] :
       std::vector<std::tuple<int32_t, int32_t, int32_t>>{
           {16, 8, 4}, {17, 8, 4}, {16, 6, 2}, {16, 4, 1}, {5, 8, 4}}) {
    RandomStream random = StreamOf(7);
    const std::vector<PartitionSet> sets =
        CometOrder(partitions, capacity, group, random);
    ExpectSets(sets, partitions, capacity);
    EXPECT_EQ(PairsThatMeet(sets).size(), AllPairs(partitions));
    // The sets in which each partition is: equal within a group.
    std::map<std::vector<size_t>, int> sizes;
    for (int32_t partition = 0; partition < partitions; ++partition) {
      std::vector<size_t> times;
      for (size_t i = 0; i < sets.size(); ++i) {
        if (std::binary_search(sets[i].begin(), sets[i].end(), partition)) {
          times.push_back(i);
        }
      }
      ++sizes[times];
    }
    if (partitions <= capacity) continue;
    EXPECT_EQ(static_cast<int32_t>(sizes.size()),
              (partitions + group - 1) / group);
  }
}

TEST(AssignPairsTest, GivesEachPairToOneSetThatHasBoth) {
  RandomStream random = StreamOf(3);
  const std::vector<PartitionSet> sets = CometOrder(16, 8, 4, random);
  const std::vector<PartitionPairs> assigned = AssignPairs(sets, 16, random);
  ASSERT_EQ(assigned.size(), sets.size());
  std::set<std::pair<int32_t, int32_t>> seen;
  for (size_t i = 0; i < sets.size(); ++i) {
    for (const auto& [from, to] : assigned[i]) {
      EXPECT_TRUE(std::binary_search(sets[i].begin(), sets[i].end(), from));
      EXPECT_TRUE(std::binary_search(sets[i].begin(), sets[i].end(), to));
      EXPECT_TRUE(seen.emplace(from, to).second);
    }
    EXPECT_FALSE(assigned[i].empty());
  }
  EXPECT_EQ(seen.size(), 256u);
  // Partitions that never meet have no set.
  EXPECT_TRUE(AssignPairs({{0}, {1}}, 3, random)[0] ==
              (PartitionPairs{{0, 0}}));
}

}  // namespace
}  // namespace hearth::strategy
