#include "kernels/aggregate.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/every_target_fixture.h"

namespace hearth::kernels {
namespace {

// Numbers that look random, from a multiplicative generator, in [-1, 1).
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed * 2 + 1) {}

  uint64_t Below(uint64_t bound) {
    state_ *= 0x9E3779B97F4A7C15;
    return (state_ >> 33) % bound;
  }

  std::vector<float> Floats(int64_t count) {
    std::vector<float> result(count);
    for (float& x : result) x = static_cast<float>(Below(2048)) / 1024 - 1;
    return result;
  }

 private:
  uint64_t state_;
};

// A bipartite graph whose row r has r % 11 edges, so that all remainders of the
// kernels' passes and rows without edges occur.
struct Graph {
  explicit Graph(int64_t num_rows, int64_t num_sources)
      : num_sources(num_sources), indptr{0} {
    Numbers numbers(1);
    for (int64_t row = 0; row < num_rows; ++row) {
      for (int64_t i = 0; i < row % 11; ++i) {
        indices.push_back(static_cast<int32_t>(numbers.Below(num_sources)));
      }
      indptr.push_back(static_cast<int64_t>(indices.size()));
    }
  }

  int64_t num_rows() const { return static_cast<int64_t>(indptr.size()) - 1; }
  int64_t num_edges() const { return indptr.back(); }
  EdgeLists lists() const { return {indptr.data(), indices.data()}; }

  int64_t num_sources;
  std::vector<int64_t> indptr;
  std::vector<int32_t> indices;
};

struct Transposed {
  explicit Transposed(const Graph& graph)
      : indptr(graph.num_sources + 1, -1),
        indices(graph.num_edges(), -1),
        edges(graph.num_edges(), -1) {
    Transpose(graph.lists(), graph.num_rows(), graph.num_sources,
              {indptr.data(), indices.data(), edges.data()});
  }

  EdgeLists lists() const {
    return {indptr.data(), indices.data(), edges.data()};
  }

  std::vector<int64_t> indptr;
  std::vector<int32_t> indices;
  std::vector<int64_t> edges;
};

int64_t Width(HeadShape shape) { return shape.heads * shape.channels; }

// out[row of each edge] += weight * source[other end], in double precision.
// `transposed` swaps the two ends.
std::vector<double> ReferenceSum(const Graph& graph, bool transposed,
                                 const std::vector<float>& weights,
                                 const std::vector<float>& source,
                                 HeadShape shape) {
  const int64_t width = Width(shape);
  std::vector<double> out((transposed ? graph.num_sources : graph.num_rows()) *
                          width);
  for (int64_t row = 0; row < graph.num_rows(); ++row) {
    for (int64_t e = graph.indptr[row]; e < graph.indptr[row + 1]; ++e) {
      const int64_t to = transposed ? graph.indices[e] : row;
      const int64_t from = transposed ? row : graph.indices[e];
      for (int64_t c = 0; c < width; ++c) {
        out[to * width + c] +=
            static_cast<double>(weights[e * shape.heads + c / shape.channels]) *
            source[from * width + c];
      }
    }
  }
  return out;
}

void ExpectNear(const std::vector<double>& expected,
                const std::vector<float>& actual) {
  ASSERT_EQ(expected.size(), actual.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(expected[i], actual[i], 1e-5) << "element " << i;
  }
}

TEST(TransposeTest, ListsTheEdgesOfEachSourceInOrder) {
  const std::vector<int64_t> indptr = {0, 2, 2, 5};
  const std::vector<int32_t> indices = {3, 1, 1, 3, 1};
  std::vector<int64_t> by_source(6, -1);
  std::vector<int32_t> destinations(5, -1);
  std::vector<int64_t> edges(5, -1);
  Transpose({indptr.data(), indices.data()}, 3, 5,
            {by_source.data(), destinations.data(), edges.data()});
  EXPECT_EQ(by_source, (std::vector<int64_t>{0, 0, 3, 3, 5, 5}));
  EXPECT_EQ(destinations, (std::vector<int32_t>{0, 2, 2, 0, 2}));
  EXPECT_EQ(edges, (std::vector<int64_t>{1, 2, 4, 0, 3}));
}

TEST(TransposeTest, OfNoEdgesAndNoSources) {
  const std::vector<int64_t> indptr = {0, 0};
  std::vector<int64_t> by_source(1, -1);
  Transpose({indptr.data(), nullptr}, 1, 0, {by_source.data()});
  EXPECT_EQ(by_source, (std::vector<int64_t>{0}));
}

class AggregateTest : public EveryTargetTest<HeadShape> {
 protected:
  HeadShape shape() const { return parameter(); }

  const Graph graph_{47, 23};
  Numbers numbers_{7};
  const std::vector<float> weights_ =
      numbers_.Floats(graph_.num_edges() * shape().heads);
  const std::vector<float> source_ =
      numbers_.Floats(graph_.num_sources * Width(shape()));
  const std::vector<float> destination_ =
      numbers_.Floats(graph_.num_rows() * Width(shape()));
};

TEST_P(AggregateTest, WeightedSumIsTheReference) {
  std::vector<float> out(graph_.num_rows() * Width(shape()), 9);
  WeightedSumRows(graph_.lists(), {0, graph_.num_rows()}, weights_.data(),
                  source_.data(), shape(), out.data());
  ExpectNear(ReferenceSum(graph_, false, weights_, source_, shape()), out);
}

TEST_P(AggregateTest, WeightedSumOfTransposedListsIsTheGradient) {
  const Transposed transposed(graph_);
  std::vector<float> out(graph_.num_sources * Width(shape()), 9);
  WeightedSumRows(transposed.lists(), {0, graph_.num_sources}, weights_.data(),
                  destination_.data(), shape(), out.data());
  ExpectNear(ReferenceSum(graph_, true, weights_, destination_, shape()), out);
}

TEST_P(AggregateTest, RangesChangeNoBitAndTouchNothingElse) {
  const int64_t width = Width(shape());
  std::vector<float> whole(graph_.num_rows() * width);
  WeightedSumRows(graph_.lists(), {0, graph_.num_rows()}, weights_.data(),
                  source_.data(), shape(), whole.data());
  std::vector<float> parts(whole.size(), 9);
  for (int64_t begin = 0; begin < graph_.num_rows(); begin += 5) {
    const int64_t end = std::min(begin + 5, graph_.num_rows());
    WeightedSumRows(graph_.lists(), {begin, end}, weights_.data(),
                    source_.data(), shape(), parts.data());
    for (int64_t i = end * width; i < graph_.num_rows() * width; ++i) {
      ASSERT_EQ(parts[i], 9) << "after row " << end;
    }
  }
  EXPECT_EQ(whole, parts);
}

TEST_P(AggregateTest, EdgeDotsAreTheReferenceInEitherDirection) {
  const int64_t heads = shape().heads;
  std::vector<double> expected(graph_.num_edges() * heads);
  for (int64_t row = 0; row < graph_.num_rows(); ++row) {
    for (int64_t e = graph_.indptr[row]; e < graph_.indptr[row + 1]; ++e) {
      for (int64_t c = 0; c < Width(shape()); ++c) {
        expected[e * heads + c / shape().channels] +=
            static_cast<double>(destination_[row * Width(shape()) + c]) *
            source_[graph_.indices[e] * Width(shape()) + c];
      }
    }
  }
  std::vector<float> out(expected.size(), 9);
  EdgeDots(graph_.lists(), {0, graph_.num_rows()}, destination_.data(),
           source_.data(), shape(), out.data());
  ExpectNear(expected, out);
  const Transposed transposed(graph_);
  std::vector<float> by_source(expected.size(), 9);
  EdgeDots(transposed.lists(), {0, graph_.num_sources}, source_.data(),
           destination_.data(), shape(), by_source.data());
  EXPECT_EQ(out, by_source);
}

struct PlacedCase {
  ElementType type;
  const char* name;
  int64_t dim;
};

class PlacedSumTest : public EveryTargetTest<PlacedCase> {};

// Rows in slots and rows that were read are summed as if they were in one
// matrix, bit for bit.
TEST_P(PlacedSumTest, ByAddressHasTheBitsOfADenseMatrix) {
  const ElementType type = parameter().type;
  const int64_t dim = parameter().dim;
  constexpr uint32_t kNumSlots = 40;
  constexpr int64_t kNumLanded = 15;
  const Graph graph(47, 23);
  Numbers numbers(3);
  const int64_t element_bytes = type == ElementType::kFloat32      ? 4
                                : type == ElementType::kScaledInt8 ? 1
                                                                   : 2;
  const int64_t row_bytes =
      dim * element_bytes + (type == ElementType::kScaledInt8 ? 4 : 0);
  const auto random_rows = [&](int64_t count) {
    std::vector<std::byte> rows(count * row_bytes);
    // Below 0x60, so that no number is an infinity or a NaN.
    for (std::byte& byte : rows) {
      byte = static_cast<std::byte>(numbers.Below(0x60));
    }
    if (type != ElementType::kFloat32) return rows;
    // Of about one size, so that all of a sum's terms count.
    const std::vector<float> values = numbers.Floats(count * dim);
    if (!rows.empty()) std::memcpy(rows.data(), values.data(), rows.size());
    return rows;
  };
  const std::vector<std::byte> slots = random_rows(kNumSlots);
  const std::vector<std::byte> landed = random_rows(kNumLanded);
  std::vector<uint32_t> addresses(graph.num_sources);
  for (uint32_t& address : addresses) {
    address = static_cast<uint32_t>(numbers.Below(kNumSlots + kNumLanded));
  }
  const AddressedRows source = {.slots = slots.data(),
                                .landed = landed.data(),
                                .num_slots = kNumSlots,
                                .type = type,
                                .dim = dim,
                                .addresses = addresses.data()};
  std::vector<float> dense(graph.num_sources * dim);
  GatherRows(source, 0, graph.num_sources, dense.data());
  const std::vector<float> weights = numbers.Floats(graph.num_edges());
  std::vector<float> expected(graph.num_rows() * dim, 9);
  WeightedSumRows(graph.lists(), {0, graph.num_rows()}, weights.data(),
                  dense.data(), {.heads = 1, .channels = dim}, expected.data());
  std::vector<float> out(graph.num_rows() * dim, 8);
  for (const RowRange rows : {RowRange{0, 20}, {20, graph.num_rows()}}) {
    WeightedSumRows(graph.lists(), rows, weights.data(), source, out.data());
  }
  ASSERT_EQ(out.size(), expected.size());
  EXPECT_EQ(out.empty() ? 0
                        : std::memcmp(out.data(), expected.data(),
                                      out.size() * sizeof(float)),
            0);
}

std::vector<PlacedCase> PlacedCases() {
  std::vector<PlacedCase> cases;
  for (const int64_t dim : {0, 1, 3, 4, 15, 16, 17, 33, 100, 256, 259, 520}) {
    cases.push_back({ElementType::kFloat32, "float32", dim});
    cases.push_back({ElementType::kFloat16, "float16", dim});
    cases.push_back({ElementType::kBFloat16, "bfloat16", dim});
    cases.push_back({ElementType::kScaledInt8, "scaled_int8", dim});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Types, PlacedSumTest,
                         ::testing::Combine(EveryTarget(),
                                            ::testing::ValuesIn(PlacedCases())),
                         TargetAnd([](const PlacedCase& c) {
                           return std::string(c.name) + "_" +
                                  std::to_string(c.dim);
                         }));

// Groups about the widths of vectors, alone and side by side.
std::vector<HeadShape> Shapes() {
  std::vector<HeadShape> shapes;
  for (const int64_t heads : {1, 2, 3, 8}) {
    for (const int64_t channels : {0, 1, 3, 4, 15, 16, 31, 32, 33, 64, 100}) {
      shapes.push_back({heads, channels});
    }
  }
  return shapes;
}

INSTANTIATE_TEST_SUITE_P(Shapes, AggregateTest,
                         ::testing::Combine(EveryTarget(),
                                            ::testing::ValuesIn(Shapes())),
                         TargetAnd([](HeadShape shape) {
                           return std::to_string(shape.heads) + "x" +
                                  std::to_string(shape.channels);
                         }));

}  // namespace
}  // namespace hearth::kernels
