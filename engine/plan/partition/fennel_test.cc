#include "engine/plan/partition/fennel.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "engine/base/random.h"
#include "gtest/gtest.h"

namespace hearth::plan {

namespace {

TEST(PartCapacityTest, IsATenthMoreRoundedUp) {
  EXPECT_EQ(PartCapacity(100, 10), 11);
  EXPECT_EQ(PartCapacity(101, 10), 12);
  EXPECT_EQ(PartCapacity(10, 10), 2);
  EXPECT_EQ(PartCapacity(1, 1), 2);
  EXPECT_EQ(PartCapacity(0, 7), 0);
  // No product overflows.
  EXPECT_EQ(PartCapacity(int64_t{1} << 62, 1),
            (int64_t{1} << 62) / 10 * 11 + 5);
}

TEST(PartCountsTest, CountsThePartsThatAreMet) {
  PartCounts counts;
  counts.Add(255);
  counts.Add(3, 4);
  counts.Add(255);
  std::vector<std::pair<int, int64_t>> met;
  counts.ForEach(
      [&](int part, int64_t count) { met.emplace_back(part, count); });
  EXPECT_EQ(met, (std::vector<std::pair<int, int64_t>>{{3, 4}, {255, 2}}));
  EXPECT_EQ(counts[3], 4);
  EXPECT_EQ(counts[4], 0);
  counts.Clear();
  counts.ForEach([](int, int64_t) { FAIL(); });
  EXPECT_EQ(counts[3], 0);
}

TEST(MinTreeTest, FindsTheFirstOfTheLowest) {
  RandomStream random(1, RandomPurpose::kGenerator);
  for (int parts : {1, 2, 3, 64, 65, 200, 256}) {
    MinTree tree(parts);
    std::vector<double> penalties(parts, MinTree::kClosed);
    for (int change = 0; change < 500; ++change) {
      const int part = static_cast<int>(random.Below(parts));
      const double penalty = random.Below(8) == 0
                                 ? MinTree::kClosed
                                 : static_cast<double>(random.Below(5));
      penalties[part] = penalty;
      tree.Set(part, penalty);
      EXPECT_EQ(tree[part], penalty);
      EXPECT_EQ(tree.lowest(),
                std::min_element(penalties.begin(), penalties.end()) -
                    penalties.begin());
    }
  }
}

/// FENNEL by asking every part.
class NaiveFennel {
 public:
  explicit NaiveFennel(const FennelInput& input)
      : input_(input), nodes_(input.parts), training_(input.parts) {}

  int Place(const std::vector<int64_t>& neighbors, bool is_training) {
    int best = Best(neighbors, is_training);
    if (best < 0) best = Best(neighbors, false);
    ++nodes_[best];
    training_[best] += is_training ? 1 : 0;
    return best;
  }

  void Remove(int part, bool is_training) {
    --nodes_[part];
    training_[part] -= is_training ? 1 : 0;
  }

 private:
  int Best(const std::vector<int64_t>& neighbors, bool is_training) const {
    const double n = static_cast<double>(input_.nodes);
    const double alpha = static_cast<double>(input_.parts) *
                         static_cast<double>(input_.edges) / (n * n);
    const double share = static_cast<double>(input_.parts);
    int best = -1;
    double best_score = 0;
    for (int part = 0; part < input_.parts; ++part) {
      if (nodes_[part] >= std::ceil(1.1 * n / share - 1e-9)) continue;
      if (is_training &&
          training_[part] >=
              std::ceil(1.1 * static_cast<double>(input_.training_nodes) /
                            share -
                        1e-9)) {
        continue;
      }
      const double score = static_cast<double>(neighbors[part]) -
                           (2 * alpha * static_cast<double>(nodes_[part]) +
                            std::sqrt(static_cast<double>(training_[part])));
      if (best < 0 || score > best_score) {
        best = part;
        best_score = score;
      }
    }
    return best;
  }

  const FennelInput input_;
  std::vector<int64_t> nodes_;
  std::vector<int64_t> training_;
};

TEST(FennelTest, PlacesAsIfEveryPartWereAsked) {
  RandomStream random(2, RandomPurpose::kGenerator);
  for (int trial = 0; trial < 400; ++trial) {
    const auto nodes = static_cast<int64_t>(1 + random.Below(200));
    const auto parts = static_cast<int>(
        1 + random.Below(std::min<uint64_t>(kMaxLevelParts, nodes)));
    std::vector<bool> is_training(nodes);
    for (int64_t node = 0; node < nodes; ++node) {
      is_training[node] = random.Below(4) < static_cast<uint64_t>(trial % 5);
    }
    const FennelInput input = {
        .nodes = nodes,
        .training_nodes =
            std::count(is_training.begin(), is_training.end(), true),
        .edges = static_cast<int64_t>(random.Below(10 * nodes)),
        .parts = parts};
    Fennel fennel(input);
    NaiveFennel naive(input);
    std::vector<int> placed(nodes);
    for (int round = 0; round < 2; ++round) {
      for (int64_t node = 0; node < nodes; ++node) {
        if (round > 0) {
          fennel.Remove(placed[node], is_training[node]);
          naive.Remove(placed[node], is_training[node]);
        }
        std::vector<int64_t> neighbors(parts);
        PartCounts counts;
        for (uint64_t i = random.Below(12); i > 0; --i) {
          const auto part = static_cast<int>(random.Below(parts));
          ++neighbors[part];
          counts.Add(part);
        }
        placed[node] = fennel.Place(counts, is_training[node]);
        ASSERT_EQ(placed[node], naive.Place(neighbors, is_training[node]))
            << "trial " << trial << ", round " << round << ", node " << node;
      }
    }
    int64_t sum = 0;
    int64_t training = 0;
    for (int part = 0; part < parts; ++part) {
      EXPECT_LE(fennel.nodes(part), PartCapacity(nodes, parts));
      sum += fennel.nodes(part);
      training += fennel.training_nodes(part);
    }
    EXPECT_EQ(sum, nodes);
    EXPECT_EQ(training, input.training_nodes);
  }
}

TEST(FennelTest, PassesOverTheTrainingLimitWhereNoPartIsLeft) {
  // Parts of at most 2 nodes and 1 training node; more nodes come than the
  // input promised.
  Fennel fennel({.nodes = 3, .training_nodes = 1, .edges = 0, .parts = 2});
  EXPECT_EQ(fennel.Place(PartCounts(), true), 0);
  EXPECT_EQ(fennel.Place(PartCounts(), true), 1);
  EXPECT_EQ(fennel.Place(PartCounts(), true), 0);
  EXPECT_EQ(fennel.training_nodes(0), 2);
}

/// Filters whose parts are all full: node i is in part i % parts.
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
    // Filters far larger than promised would have fewer.
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
