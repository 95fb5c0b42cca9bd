#include "engine/ingest/import/edge_adaptors.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace hearth::ingest {
namespace {

/// Edge i joins i and 100 + i; each pass must read on.
class CountedEdges final : public EdgeSource {
 public:
  explicit CountedEdges(int64_t count) : count_(count) {}

  int64_t num_edges() const override { return count_; }

  absl::Status Read(int64_t first, int64_t count, EdgeBlock& block) override {
    EXPECT_TRUE(first == 0 || first == next_) << first;
    EXPECT_LE(first + count, count_);
    next_ = first + count;
    block.sources.clear();
    block.destinations.clear();
    for (int64_t i = first; i < next_; ++i) {
      block.sources.push_back(i);
      block.destinations.push_back(100 + i);
    }
    return absl::OkStatus();
  }

 private:
  const int64_t count_;
  int64_t next_ = 0;
};

class EdgesWithReverseTest : public testing::TestWithParam<int64_t> {};

TEST_P(EdgesWithReverseTest, EachEdgeAndThenItsReverse) {
  const auto edges = NewEdgesWithReverse(std::make_unique<CountedEdges>(7));
  ASSERT_EQ(edges->num_edges(), 14);
  for (int pass = 0; pass < 2; ++pass) {
    std::vector<std::pair<int64_t, int64_t>> got, wanted;
    for (int64_t first = 0; first < 14; first += GetParam()) {
      EdgeBlock block;
      ASSERT_TRUE(
          edges->Read(first, std::min(GetParam(), 14 - first), block).ok());
      for (size_t i = 0; i < block.size(); ++i) {
        got.emplace_back(block.sources[i], block.destinations[i]);
      }
    }
    for (int64_t i = 0; i < 7; ++i) {
      wanted.emplace_back(i, 100 + i);
      wanted.emplace_back(100 + i, i);
    }
    EXPECT_EQ(got, wanted);
  }
}

INSTANTIATE_TEST_SUITE_P(Blocks, EdgesWithReverseTest,
                         testing::Values(1, 2, 3, 4, 5, 13, 14));

}  // namespace
}  // namespace hearth::ingest
