#include "engine/strategy/diskgnn/layout/minhash_order.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "engine/base/random.h"
#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

// For each batch, the rows that it needs.
using Needs = std::vector<std::vector<uint32_t>>;

std::vector<uint32_t> PlacesOf(const Needs& needs, int64_t num_rows,
                               uint64_t seed = 7, int64_t segment = 3) {
  MinHashOrder order(num_rows, std::ssize(needs), seed, segment);
  for (size_t batch = 0; batch < needs.size(); ++batch) {
    for (const uint32_t row : needs[batch]) {
      order.Add(static_cast<int64_t>(batch), row);
    }
  }
  return std::move(order).Places();
}

Needs RandomNeeds(RandomStream& random, int64_t batches, int64_t num_rows) {
  Needs needs(static_cast<size_t>(batches));
  for (auto& rows : needs) {
    for (uint32_t row = 0; row < num_rows; ++row) {
      if (random.Below(3) == 0) rows.push_back(row);
    }
  }
  return needs;
}

// Algorithm 1 as it stands, one function at a time. The ranks of the batches
// are found out from rows that only one batch needs.
std::vector<uint32_t> SlowPlaces(const Needs& needs, uint32_t num_rows) {
  const auto batches = static_cast<uint32_t>(needs.size());
  std::vector<std::vector<uint32_t>> ranks;
  for (uint64_t j = 0; j < 2; ++j) {
    RandomStream random(7, RandomPurpose::kReordering, 3, j);
    std::vector<uint32_t> permutation(batches);
    std::iota(permutation.begin(), permutation.end(), 0u);
    for (size_t i = batches; i > 1; --i) {
      std::swap(permutation[i - 1], permutation[random.Below(i)]);
    }
    ranks.push_back(permutation);
  }
  std::map<std::vector<uint32_t>, std::vector<uint32_t>> rows_of;
  for (uint32_t row = 0; row < num_rows; ++row) {
    std::vector<uint32_t> signature(2, batches);
    for (uint32_t batch = 0; batch < batches; ++batch) {
      if (std::count(needs[batch].begin(), needs[batch].end(), row) == 0) {
        continue;
      }
      for (int j = 0; j < 2; ++j) {
        signature[j] = std::min(signature[j], ranks[j][batch]);
      }
    }
    rows_of[signature].push_back(row);
  }
  std::vector<uint32_t> places(num_rows);
  uint32_t place = 0;
  for (const auto& [signature, rows] : rows_of) {
    for (const uint32_t row : rows) places[row] = place++;
  }
  return places;
}

TEST(MinHashOrderTest, IsAlgorithmOne) {
  RandomStream random(1, RandomPurpose::kGenerator);
  for (int trial = 0; trial < 100; ++trial) {
    const auto num_rows = static_cast<uint32_t>(random.Below(40));
    const Needs needs =
        RandomNeeds(random, static_cast<int64_t>(random.Below(12)), num_rows);
    EXPECT_EQ(PlacesOf(needs, num_rows), SlowPlaces(needs, num_rows));
  }
}

TEST(MinHashOrderTest, RowsOfTheSameBatchesAreNeighbors) {
  // 4 kinds of rows, spread evenly over the numbers.
  constexpr uint32_t kRows = 64;
  Needs needs(8);
  for (uint32_t row = 0; row < kRows; ++row) {
    needs[2 * (row % 4)].push_back(row);
    needs[2 * (row % 4) + 1].push_back(row);
  }
  const std::vector<uint32_t> places = PlacesOf(needs, kRows);
  for (uint32_t kind = 0; kind < 4; ++kind) {
    std::set<uint32_t> of_kind;
    for (uint32_t row = kind; row < kRows; row += 4) {
      of_kind.insert(places[row]);
    }
    EXPECT_EQ(*of_kind.rbegin() - *of_kind.begin() + 1, kRows / 4) << kind;
  }
}

TEST(MinHashOrderTest, PlacesAreAPermutationAndRepeat) {
  RandomStream random(2, RandomPurpose::kGenerator);
  const Needs needs = RandomNeeds(random, 30, 500);
  std::vector<uint32_t> places = PlacesOf(needs, 500);
  EXPECT_EQ(places, PlacesOf(needs, 500));
  EXPECT_NE(places, PlacesOf(needs, 500, /*seed=*/8));
  EXPECT_NE(places, PlacesOf(needs, 500, /*seed=*/7, /*segment=*/4));
  std::sort(places.begin(), places.end());
  for (uint32_t place = 0; place < 500; ++place)
    EXPECT_EQ(places[place], place);
}

TEST(MinHashOrderTest, NothingToOrder) {
  EXPECT_TRUE(PlacesOf({}, 0).empty());
  EXPECT_TRUE(PlacesOf({{}, {}}, 0).empty());
  // Rows that no batch needs keep their order, at the end.
  EXPECT_EQ(PlacesOf({{}, {2}}, 3), (std::vector<uint32_t>{1, 2, 0}));
}

}  // namespace
}  // namespace hearth::strategy
