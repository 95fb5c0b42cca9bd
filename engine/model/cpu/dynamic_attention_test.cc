#include "engine/model/cpu/dynamic_attention.h"

#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/highway.h"
#include "kernels/aggregate.h"

namespace hearth::model {
namespace {

constexpr int64_t kHeads = 2;
constexpr int64_t kSources = 9;
constexpr int64_t kDestinations = 6;

// Values in [-1, 1) that depend on `seed` alone.
std::vector<float> Values(int64_t size, uint32_t seed) {
  std::vector<float> values(size);
  for (float& value : values) {
    seed = seed * 1664525 + 1013904223;
    value = static_cast<float>(seed >> 8) * 0x1p-23f - 1;
  }
  return values;
}

// Edges with random gradients by scores, and rows for scores. Destination i has
// i edges.
class ScoredGraph {
 public:
  explicit ScoredGraph(int64_t channels)
      : channels_(channels),
        sources_(Values(kSources * width(), 1)),
        destinations_(Values(kDestinations * width(), 2)),
        attention_(Values(width(), 3)) {
    indptr_.push_back(0);
    for (int64_t row = 0; row < kDestinations; ++row) {
      for (int64_t i = 0; i < row; ++i) {
        indices_.push_back(static_cast<int32_t>((3 * row + 2 * i) % kSources));
      }
      indptr_.push_back(num_edges());
    }
    gradient_ = Values(num_edges() * kHeads, 4);
    by_source_indptr_.resize(kSources + 1);
    by_source_indices_.resize(num_edges());
    by_source_edges_.resize(num_edges());
    kernels::Transpose(lists(), kDestinations, kSources,
                       {by_source_indptr_.data(), by_source_indices_.data(),
                        by_source_edges_.data()});
  }

  struct Results {
    std::vector<float> scores;
    std::vector<float> by_source;
    std::vector<float> by_destination;
    std::vector<float> by_attention;

    bool operator==(const Results&) const = default;
  };

  Results Make() const {
    const std::vector<float> zeros(kSources * width());
    return {.scores = std::vector<float>(num_edges() * kHeads),
            .by_source = zeros,
            .by_destination = std::vector<float>(kDestinations * width(), 7),
            .by_attention = std::vector<float>(kDestinations * width(), 7)};
  }

  // Results of the functions, with rows split into two ranges at `split`.
  Results Compute(int64_t split) const {
    Results results = Make();
    for (const kernels::RowRange range :
         {kernels::RowRange{0, split}, {split, kDestinations}}) {
      ScoreEdges(lists(), range, rows(), results.scores.data());
      ScoreGradientByDestination(lists(), range, rows(), gradient_.data(),
                                 results.by_destination.data(),
                                 results.by_attention.data());
    }
    for (const kernels::RowRange range :
         {kernels::RowRange{0, split}, {split, kSources}}) {
      AddScoreGradientBySource(transposed(), range, rows(), gradient_.data(),
                               results.by_source.data());
    }
    return results;
  }

  // Results by the definition, edge by edge and column by column.
  Results Expected() const {
    Results results = Make();
    results.by_destination.assign(kDestinations * width(), 0);
    results.by_attention.assign(kDestinations * width(), 0);
    for (int64_t row = 0; row < kDestinations; ++row) {
      for (int64_t edge = indptr_[row]; edge < indptr_[row + 1]; ++edge) {
        for (int64_t column = 0; column < width(); ++column) {
          AddColumn(row, edge, column, results);
        }
      }
    }
    return results;
  }

 private:
  int64_t width() const { return kHeads * channels_; }
  int64_t num_edges() const { return static_cast<int64_t>(indices_.size()); }

  kernels::EdgeLists lists() const {
    return {.indptr = indptr_.data(), .indices = indices_.data()};
  }
  kernels::EdgeLists transposed() const {
    return {.indptr = by_source_indptr_.data(),
            .indices = by_source_indices_.data(),
            .edges = by_source_edges_.data()};
  }
  ScoredRows rows() const {
    return {.shape = {kHeads, channels_},
            .sources = sources_.data(),
            .destinations = destinations_.data(),
            .attention = attention_.data()};
  }

  void AddColumn(int64_t row, int64_t edge, int64_t column,
                 Results& results) const {
    const int64_t source = indices_[edge] * width() + column;
    const int64_t own = row * width() + column;
    const int64_t score = edge * kHeads + column / channels_;
    const float sum = sources_[source] + destinations_[own];
    const float slope = sum > 0 ? 1 : kNegativeSlope;
    const float by_sum = gradient_[score] * attention_[column] * slope;
    results.scores[score] += attention_[column] * sum * slope;
    results.by_source[source] += by_sum;
    results.by_destination[own] += by_sum;
    results.by_attention[own] += gradient_[score] * sum * slope;
  }

  int64_t channels_;
  std::vector<int64_t> indptr_;
  std::vector<int32_t> indices_;
  std::vector<int64_t> by_source_indptr_;
  std::vector<int32_t> by_source_indices_;
  std::vector<int64_t> by_source_edges_;
  std::vector<float> sources_;
  std::vector<float> destinations_;
  std::vector<float> attention_;
  std::vector<float> gradient_;
};

void ExpectNear(const std::vector<float>& found,
                const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], 1e-4) << i;
  }
}

class DynamicAttentionTest : public testing::TestWithParam<int64_t> {
 protected:
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

TEST_P(DynamicAttentionTest, FollowsTheDefinitionWithEveryInstructionSet) {
  const ScoredGraph graph(GetParam());
  const ScoredGraph::Results expected = graph.Expected();
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    const ScoredGraph::Results results = graph.Compute(0);
    ExpectNear(results.scores, expected.scores);
    ExpectNear(results.by_source, expected.by_source);
    ExpectNear(results.by_destination, expected.by_destination);
    ExpectNear(results.by_attention, expected.by_attention);
  }
}

TEST_P(DynamicAttentionTest, RangesOfRowsChangeNoBit) {
  const ScoredGraph graph(GetParam());
  EXPECT_EQ(graph.Compute(1), graph.Compute(0));
  EXPECT_EQ(graph.Compute(4), graph.Compute(0));
}

INSTANTIATE_TEST_SUITE_P(Channels, DynamicAttentionTest,
                         testing::Values(1, 3, 4, 6, 16, 31, 64, 100));

}  // namespace
}  // namespace hearth::model
