// Runs the GPU kernels of models on the CPU and compares them with the CPU's
// kernels, or with plain loops where the CPU's code is in the engine.

#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/aggregate.h"
#include "kernels/cuda/emulation/emulated_kernels.h"
#include "kernels/cuda/hearth_cuda.h"

namespace hearth::kernels {
namespace {

using Floats = std::vector<float>;

constexpr int64_t kNumSources = 70;
// The words of Philox4x32-10 for a key and a counter of zeros.
constexpr uint32_t kPublishedWords[] = {0x6627E8D5u, 0xE169C58Du, 0xBC57AC4Cu,
                                        0x9B00DBD8u};

Floats Values(int64_t count, uint32_t seed) {
  Floats values(static_cast<size_t>(count));
  for (float& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<float>(seed >> 8) / 0x1p23f - 1;
  }
  return values;
}

// Destinations with 0, 1, 2 ... edges in turn, and the same edges by source.
struct Graph {
  explicit Graph(int64_t destinations) : indptr({0}) {
    for (int64_t row = 0; row < destinations; ++row) {
      for (int64_t i = 0; i < row % 7; ++i) {
        indices.push_back(static_cast<int32_t>(row * row * 5 + i * 11) %
                          kNumSources);
      }
      indptr.push_back(static_cast<int64_t>(indices.size()));
    }
    by_source_indptr.resize(kNumSources + 1);
    by_source_indices.resize(indices.size());
    places.resize(indices.size());
    Transpose(
        Lists(), destinations, kNumSources,
        {by_source_indptr.data(), by_source_indices.data(), places.data()});
  }

  int64_t num_rows() const { return static_cast<int64_t>(indptr.size()) - 1; }
  int64_t num_edges() const { return static_cast<int64_t>(indices.size()); }

  EdgeLists Lists() const { return {indptr.data(), indices.data(), nullptr}; }
  EdgeLists ListsBySource() const {
    return {by_source_indptr.data(), by_source_indices.data(), places.data()};
  }
  HearthCudaEdges Edges() const {
    return {indptr.data(), indices.data(), nullptr, num_rows()};
  }
  HearthCudaEdges EdgesBySource() const {
    return {by_source_indptr.data(), by_source_indices.data(), places.data(),
            kNumSources};
  }

  std::vector<int64_t> indptr;
  std::vector<int32_t> indices;
  std::vector<int64_t> by_source_indptr;
  std::vector<int32_t> by_source_indices;
  std::vector<int64_t> places;
};

void ExpectNear(const Floats& actual, const Floats& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], 1e-5f * (1 + std::abs(expected[i])))
        << "at " << i;
  }
}

// Calls `check(graph, shape)` for sizes around the size of a warp.
template <typename F>
void ForSizes(const F& check) {
  for (const int64_t rows : {0, 1, 31, 32, 33, 600}) {
    const Graph graph(rows);
    for (const HeadShape shape :
         {HeadShape{1, 1}, HeadShape{1, 31}, HeadShape{1, 32}, HeadShape{1, 33},
          HeadShape{3, 5}, HeadShape{4, 64}}) {
      SCOPED_TRACE(testing::Message() << rows << " rows, " << shape.heads
                                      << " heads of " << shape.channels);
      check(graph, shape);
    }
  }
}

TEST(EdgesEmulationTest, SumsAreTheCpus) {
  ForSizes([](const Graph& graph, const HeadShape& shape) {
    const int64_t width = shape.heads * shape.channels;
    const Floats weights = Values(graph.num_edges() * shape.heads, 1);
    const auto expect = [&](const EdgeLists& lists,
                            const HearthCudaEdges& edges, int64_t sources) {
      const Floats source = Values(sources * width, 2);
      Floats expected(static_cast<size_t>(edges.num_rows * width));
      WeightedSumRows(lists, {0, edges.num_rows}, weights.data(), source.data(),
                      shape, expected.data());
      Floats actual(expected.size(), NAN);
      EXPECT_EQ(EmulateSum({edges, weights.data(), source.data(), shape.heads,
                            shape.channels, actual.data()}),
                0);
      ExpectNear(actual, expected);
    };
    expect(graph.Lists(), graph.Edges(), kNumSources);
    expect(graph.ListsBySource(), graph.EdgesBySource(), graph.num_rows());
  });
}

TEST(EdgesEmulationTest, DotsAreTheCpus) {
  ForSizes([](const Graph& graph, const HeadShape& shape) {
    const int64_t width = shape.heads * shape.channels;
    const Floats own = Values(graph.num_rows() * width, 1);
    const Floats other = Values(kNumSources * width, 2);
    Floats expected(static_cast<size_t>(graph.num_edges() * shape.heads));
    EdgeDots(graph.Lists(), {0, graph.num_rows()}, own.data(), other.data(),
             shape, expected.data());
    Floats actual(expected.size(), NAN);
    EXPECT_EQ(EmulateDots({graph.Edges(), own.data(), other.data(), shape.heads,
                           shape.channels, actual.data()}),
              0);
    ExpectNear(actual, expected);
  });
}

// Operands of scores, in rows that are wider than they need be.
struct Operands {
  Operands(const Graph& graph, const HeadShape& shape, bool weighed)
      : shape(shape),
        stride(shape.heads * shape.channels + 2),
        own(Values(graph.num_rows() * stride, 3)),
        other(Values(kNumSources * stride, 4)),
        attention(weighed ? Values(shape.heads * shape.channels, 5)
                          : Floats(shape.heads * shape.channels, 1)),
        weighed(weighed) {}

  HearthCudaScored Scored(const Graph& graph) const {
    return {graph.Edges(), own.data(),     other.data(), Vectors(),
            shape.heads,   shape.channels, stride};
  }
  HearthCudaScored ScoredBySource(const Graph& graph) const {
    return {graph.EdgesBySource(), other.data(),   own.data(), Vectors(),
            shape.heads,           shape.channels, stride};
  }
  const float* Vectors() const { return weighed ? attention.data() : nullptr; }

  // The sum of the operands of one edge in one column.
  float Sum(int64_t row, int64_t source, int64_t column) const {
    return own[row * stride + column] + other[source * stride + column];
  }

  HeadShape shape;
  int64_t stride;
  Floats own;
  Floats other;
  Floats attention;
  bool weighed;
};

// Calls `visit(row, source, edge, head, column)` for all columns of all edges.
template <typename F>
void ForColumns(const Graph& graph, const HeadShape& shape, const F& visit) {
  for (int64_t row = 0; row < graph.num_rows(); ++row) {
    for (int64_t e = graph.indptr[row]; e < graph.indptr[row + 1]; ++e) {
      for (int64_t c = 0; c < shape.heads * shape.channels; ++c) {
        visit(row, graph.indices[e], e, c / shape.channels, c);
      }
    }
  }
}

TEST(EdgesEmulationTest, ScoresAreThoseOfPlainLoops) {
  ForSizes([](const Graph& graph, const HeadShape& shape) {
    for (const bool weighed : {false, true}) {
      const Operands operands(graph, shape, weighed);
      Floats expected(static_cast<size_t>(graph.num_edges() * shape.heads));
      ForColumns(graph, shape,
                 [&](int64_t row, int64_t s, int64_t e, int64_t h, int64_t c) {
                   const float sum = operands.Sum(row, s, c);
                   expected[e * shape.heads + h] +=
                       operands.attention[c] * std::max(sum, 0.2f * sum);
                 });
      Floats actual(expected.size(), NAN);
      EXPECT_EQ(EmulateScores({operands.Scored(graph), actual.data()}), 0);
      ExpectNear(actual, expected);
    }
  });
}

TEST(EdgesEmulationTest, ScoreGradientsAreThoseOfPlainLoops) {
  ForSizes([](const Graph& graph, const HeadShape& shape) {
    const int64_t width = shape.heads * shape.channels;
    const Floats given = Values(graph.num_edges() * shape.heads, 6);
    for (const bool weighed : {false, true}) {
      const Operands operands(graph, shape, weighed);
      const int64_t stride = operands.stride;
      // Values that are in no column stay.
      Floats by_own(static_cast<size_t>(graph.num_rows() * stride), 7);
      Floats actual_by_own = by_own;
      Floats by_other = Values(kNumSources * stride, 8);
      Floats actual_by_other = by_other;
      Floats by_attention(static_cast<size_t>(graph.num_rows() * width));
      Floats actual_by_attention(by_attention.size(), NAN);
      for (int64_t row = 0; row < graph.num_rows(); ++row) {
        std::fill_n(by_own.begin() + row * stride, width, 0.0f);
      }
      ForColumns(graph, shape,
                 [&](int64_t row, int64_t s, int64_t e, int64_t h, int64_t c) {
                   const float sum = operands.Sum(row, s, c);
                   const float slope = sum > 0 ? 1 : 0.2f;
                   const float gradient = given[e * shape.heads + h];
                   const float by_sum =
                       gradient * slope * operands.attention[c];
                   by_own[row * stride + c] += by_sum;
                   by_other[s * stride + c] += by_sum;
                   by_attention[row * width + c] += gradient * slope * sum;
                 });
      EXPECT_EQ(EmulateScoreGradient({operands.Scored(graph), given.data(),
                                      actual_by_own.data(),
                                      actual_by_attention.data(), 0}),
                0);
      EXPECT_EQ(
          EmulateScoreGradient({operands.ScoredBySource(graph), given.data(),
                                actual_by_other.data(), nullptr, 1}),
          0);
      ExpectNear(actual_by_own, by_own);
      ExpectNear(actual_by_attention, by_attention);
      ExpectNear(actual_by_other, by_other);
    }
  });
}

TEST(EdgesEmulationTest, ASoftmaxSumsToOneInEachRowAndHead) {
  ForSizes([](const Graph& graph, const HeadShape& shape) {
    const int64_t heads = shape.heads;
    const Floats scores = Values(graph.num_edges() * heads, 9);
    Floats softmax = scores;
    EXPECT_EQ(EmulateSoftmax({graph.Edges(), heads, nullptr, softmax.data()}),
              0);
    for (int64_t row = 0; row < graph.num_rows(); ++row) {
      for (int64_t head = 0; head < heads; ++head) {
        float sum = 0;
        const int64_t first = graph.indptr[row];
        for (int64_t e = first; e < graph.indptr[row + 1]; ++e) {
          sum += softmax[e * heads + head];
          ASSERT_NEAR(
              softmax[e * heads + head] / softmax[first * heads + head],
              std::exp(scores[e * heads + head] - scores[first * heads + head]),
              1e-5);
        }
        if (graph.indptr[row + 1] > first) {
          ASSERT_NEAR(sum, 1, 1e-5);
        }
      }
    }
  });
}

TEST(EdgesEmulationTest, TheSoftmaxsGradientIsItsSlope) {
  const Graph graph(33);
  constexpr int64_t kHeads = 2;
  const int64_t count = graph.num_edges() * kHeads;
  const Floats scores = Values(count, 10);
  const Floats factors = Values(count, 11);
  // The sum of all weights of edges times factors, for those scores.
  const auto value = [&](Floats softmax) {
    EmulateSoftmax({graph.Edges(), kHeads, nullptr, softmax.data()});
    return std::inner_product(softmax.begin(), softmax.end(), factors.begin(),
                              0.0);
  };
  Floats softmax = scores;
  EmulateSoftmax({graph.Edges(), kHeads, nullptr, softmax.data()});
  Floats gradient = factors;
  EXPECT_EQ(EmulateSoftmaxGradient(
                {graph.Edges(), kHeads, softmax.data(), gradient.data()}),
            0);
  constexpr float kStep = 1e-2f;
  for (int64_t i = 0; i < count; ++i) {
    Floats above = scores;
    Floats below = scores;
    above[i] += kStep;
    below[i] -= kStep;
    ASSERT_NEAR(gradient[i], (value(above) - value(below)) / (2 * kStep), 2e-4);
  }
}

TEST(EdgesEmulationTest, DropsByThePublishedGenerator) {
  // Block 0 of the first tile decides on elements 0, 16, 32 and 48.
  for (const uint32_t word : kPublishedWords) {
    for (const uint32_t threshold : {word, word + 1}) {
      Floats output(64, 1);
      EXPECT_EQ(EmulateActivate({{.slope = 0,
                                  .scale = 2,
                                  .threshold = threshold,
                                  .key = {0, 0},
                                  .nonce = {0, 0}},
                                 64,
                                 output.data(),
                                 nullptr,
                                 nullptr}),
                0);
      for (int j = 0; j < 4; ++j) {
        EXPECT_EQ(output[16 * j], kPublishedWords[j] < threshold ? 0 : 2);
      }
    }
  }
}

TEST(EdgesEmulationTest, ActivationsAndGradientsAreThoseOfEachElement) {
  for (const int64_t count : {0, 1, 31, 32, 33, 63, 64, 65, 5000}) {
    for (const float slope : {0.0f, 0.01f}) {
      const HearthCudaActivation activation = {.slope = slope,
                                               .scale = 2,
                                               .threshold = 1u << 31,
                                               .key = {1, 2},
                                               .nonce = {3, 4}};
      const Floats x = Values(count, 12);
      const Floats gradient = Values(count, 13);
      Floats output = x;
      Floats result(x.size(), NAN);
      // Ones that the same pattern keeps.
      Floats kept(x.size(), 1);
      ASSERT_EQ(
          EmulateActivate({activation, count, kept.data(), nullptr, nullptr}),
          0);
      ASSERT_EQ(
          EmulateActivate({activation, count, output.data(), nullptr, nullptr}),
          0);
      ASSERT_EQ(EmulateActivationGradient({activation, count, output.data(),
                                           gradient.data(), result.data()}),
                0);
      for (int64_t i = 0; i < count; ++i) {
        const float factor = kept[i] * (x[i] > 0 ? 1 : slope);
        ASSERT_NEAR(output[i], x[i] * factor, 1e-6) << i;
        // A kept element of ReLU that fell to zero has no gradient either.
        ASSERT_NEAR(result[i], gradient[i] * factor, 1e-6) << i;
      }
      if (count == 5000) {
        const float sum = std::accumulate(kept.begin(), kept.end(), 0.0f);
        EXPECT_NEAR(sum, 5000, 300);
      }
    }
  }
}

TEST(EdgesEmulationTest, InfinitiesFallToZero) {
  Floats values = {-INFINITY, NAN, INFINITY};
  HearthCudaActivation relu = {};
  relu.scale = 1;
  EXPECT_EQ(EmulateActivate({relu, 3, values.data(), nullptr, nullptr}), 0);
  EXPECT_EQ(values[0], 0);
  EXPECT_TRUE(std::isnan(values[1]));
  EXPECT_EQ(values[2], INFINITY);
}

TEST(EdgesEmulationTest, NonsenseIsRefused) {
  const int64_t indptr[] = {0};
  const HearthCudaEdges none = {indptr, nullptr, nullptr, 0};
  EXPECT_NE(EmulateSum({none, nullptr, nullptr, -1, 1, nullptr}), 0);
  EXPECT_NE(EmulateDots({none, nullptr, nullptr, 1, -1, nullptr}), 0);
  EXPECT_NE(
      EmulateScores({{none, nullptr, nullptr, nullptr, 2, 2, 3}, nullptr}), 0);
  EXPECT_NE(EmulateSoftmax({none, -1, nullptr, nullptr}), 0);
  EXPECT_NE(EmulateSoftmaxGradient({none, -1, nullptr, nullptr}), 0);
  EXPECT_NE(EmulateScoreGradient({{none, nullptr, nullptr, nullptr, 2, 2, 3},
                                  nullptr,
                                  nullptr,
                                  nullptr,
                                  0}),
            0);
  EXPECT_NE(EmulateActivate({{}, -1, nullptr, nullptr, nullptr}), 0);
  EXPECT_NE(EmulateActivationGradient({{}, -1, nullptr, nullptr, nullptr}), 0);
}

}  // namespace
}  // namespace hearth::kernels
