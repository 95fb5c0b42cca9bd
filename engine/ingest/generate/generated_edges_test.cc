#include "engine/ingest/generate/generated_edges.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gtest/gtest.h"

namespace hearth::ingest {
namespace {

enum class Kind { kRmat, kCommunities, kApart };

std::string NameOf(Kind kind) {
  constexpr const char* kNames[] = {"Rmat", "Communities", "Apart"};
  return kNames[static_cast<size_t>(kind)];
}

GenerateOptions Options(Kind kind, int64_t num_nodes, int64_t num_edges) {
  GenerateOptions options;
  options.num_nodes = num_nodes;
  options.num_edges = num_edges;
  options.num_classes = std::min<int64_t>(16, num_nodes);
  if (kind != Kind::kRmat) options.graph = CommunityGraph{};
  if (kind == Kind::kApart) {
    std::get<CommunityGraph>(options.graph).num_communities =
        std::max<int64_t>(1, num_nodes / options.num_classes / 30);
  }
  options.seed = 11;
  return options;
}

EdgeBlock ReadAll(const GenerateOptions& options) {
  const auto edges = NewGeneratedEdges(options, GeneratedClasses(options));
  EdgeBlock block;
  EXPECT_TRUE(edges->Read(0, edges->num_edges(), block).ok());
  return block;
}

/// Share of edges that join nodes of one group.
double ShareOfSame(const GenerateOptions& options,
                   const std::function<int64_t(int64_t)>& group_of) {
  const EdgeBlock block = ReadAll(options);
  int64_t same = 0;
  for (size_t i = 0; i < block.size(); ++i) {
    same +=
        group_of(block.sources[i]) == group_of(block.destinations[i]) ? 1 : 0;
  }
  return static_cast<double>(same) / static_cast<double>(block.size());
}

double ShareOfSameClass(const GenerateOptions& options) {
  const GeneratedClasses classes(options);
  return ShareOfSame(options,
                     [&](int64_t node) { return classes.ClassOf(node); });
}

double ShareOfSameCommunity(const GenerateOptions& options) {
  const GeneratedClasses classes(options);
  return ShareOfSame(options, [&](int64_t node) {
    return classes.CommunityOfRank(classes.RankOfNode(node));
  });
}

/// Degrees by `nodes`, from the largest.
std::vector<int64_t> Degrees(const std::vector<int64_t>& nodes,
                             int64_t num_nodes) {
  std::vector<int64_t> degrees(static_cast<size_t>(num_nodes));
  for (const int64_t node : nodes) ++degrees[static_cast<size_t>(node)];
  std::sort(degrees.begin(), degrees.end(), std::greater<>());
  return degrees;
}

/// Share of edges that the first of `part` nodes has.
double ShareOfFirst(const std::vector<int64_t>& degrees, double part) {
  const auto count = static_cast<int64_t>(degrees.size() * part);
  const auto sum = [&](int64_t n) {
    return std::accumulate(degrees.begin(), degrees.begin() + n, 0.0);
  };
  return sum(count) / sum(static_cast<int64_t>(degrees.size()));
}

class GeneratedEdgesTest : public testing::TestWithParam<Kind> {};

INSTANTIATE_TEST_SUITE_P(Kinds, GeneratedEdgesTest,
                         testing::Values(Kind::kRmat, Kind::kCommunities,
                                         Kind::kApart),
                         [](const auto& info) { return NameOf(info.param); });

TEST_P(GeneratedEdgesTest, AreInRangeForAnyNumberOfNodes) {
  for (const int64_t num_nodes : {1, 2, 3, 17, 31, 32, 33, 1000, 40'000}) {
    GenerateOptions options = Options(GetParam(), num_nodes, 2000);
    for (const int64_t num_classes : {int64_t{1}, options.num_classes}) {
      options.num_classes = num_classes;
      const EdgeBlock block = ReadAll(options);
      ASSERT_EQ(block.size(), 2000u);
      for (const auto* ends : {&block.sources, &block.destinations}) {
        const auto [least, most] =
            std::minmax_element(ends->begin(), ends->end());
        EXPECT_GE(*least, 0);
        EXPECT_LT(*most, num_nodes);
      }
    }
  }
}

TEST_P(GeneratedEdgesTest, AreInRangeForTheLargestNumberOfNodes) {
  const GenerateOptions options =
      Options(GetParam(), (int64_t{1} << 35) - 1, 100'000);
  const EdgeBlock block = ReadAll(options);
  for (const auto* ends : {&block.sources, &block.destinations}) {
    const auto [least, most] = std::minmax_element(ends->begin(), ends->end());
    EXPECT_GE(*least, 0);
    EXPECT_LT(*most, options.num_nodes);
    EXPECT_GT(*most, options.num_nodes / 2);
  }
}

TEST_P(GeneratedEdgesTest, AreTheSameHoweverTheyAreCut) {
  for (const bool undirected : {false, true}) {
    GenerateOptions options = Options(GetParam(), 1000, 998);
    options.undirected = undirected;
    const EdgeBlock whole = ReadAll(options);
    const auto edges = NewGeneratedEdges(options, GeneratedClasses(options));
    EdgeBlock part;
    for (const int64_t size : {1, 2, 3, 7, 500, 997}) {
      for (int64_t first = 0; first < 998; first += size) {
        const int64_t count = std::min<int64_t>(size, 998 - first);
        ASSERT_TRUE(edges->Read(first, count, part).ok());
        ASSERT_EQ(part.size(), static_cast<size_t>(count));
        ASSERT_TRUE(std::equal(part.sources.begin(), part.sources.end(),
                               whole.sources.begin() + first));
        ASSERT_TRUE(std::equal(part.destinations.begin(),
                               part.destinations.end(),
                               whole.destinations.begin() + first));
      }
    }
  }
}

TEST_P(GeneratedEdgesTest, OfUndirectedGraphsAreFollowedByTheirReverse) {
  GenerateOptions options = Options(GetParam(), 1000, 500);
  const EdgeBlock directed = ReadAll(options);
  options.undirected = true;
  options.num_edges = 1000;
  const EdgeBlock both = ReadAll(options);
  for (size_t i = 0; i < directed.size(); ++i) {
    ASSERT_EQ(both.sources[2 * i], directed.sources[i]);
    ASSERT_EQ(both.destinations[2 * i], directed.destinations[i]);
    ASSERT_EQ(both.sources[2 * i + 1], directed.destinations[i]);
    ASSERT_EQ(both.destinations[2 * i + 1], directed.sources[i]);
  }
}

TEST_P(GeneratedEdgesTest, FollowFromTheSeed) {
  GenerateOptions options = Options(GetParam(), 1000, 5000);
  const EdgeBlock one = ReadAll(options);
  const EdgeBlock same = ReadAll(options);
  EXPECT_EQ(one.sources, same.sources);
  EXPECT_EQ(one.destinations, same.destinations);
  options.seed = 12;
  const EdgeBlock other = ReadAll(options);
  EXPECT_NE(one.sources, other.sources);
  EXPECT_NE(one.destinations, other.destinations);
}

TEST_P(GeneratedEdgesTest, HaveAHeavyTail) {
  constexpr int64_t kNodes = 50'000;
  const EdgeBlock block = ReadAll(Options(GetParam(), kNodes, 1'000'000));
  for (const auto* ends : {&block.sources, &block.destinations}) {
    const std::vector<int64_t> degrees = Degrees(*ends, kNodes);
    // Random edges would give a largest degree of about 40, and 1.7 percent.
    EXPECT_GT(degrees[0], 2000);
    EXPECT_GT(ShareOfFirst(degrees, 0.01), 0.15);
    EXPECT_LT(ShareOfFirst(degrees, 0.01), 0.5);
  }
}

TEST(CommunityEdgesTest, ThatShareOfEdgesIsInside) {
  for (const double inside : {0.0, 0.3, 0.8, 1.0}) {
    GenerateOptions options = Options(Kind::kCommunities, 10'007, 200'000);
    options.graph = CommunityGraph{inside, 2.5};
    EXPECT_NEAR(ShareOfSameClass(options), inside, 0.005);
  }
}

// The checksums date from before there were communities apart from classes:
// these edges have not changed since.
TEST(CommunityEdgesTest, OfClassesAreThoseOfOldGraphs) {
  for (const auto& [undirected, expected] :
       {std::pair{false, 11001815939981863736u},
        std::pair{true, 8600856099390237140u}}) {
    GenerateOptions options = Options(Kind::kCommunities, 10'007, 20'000);
    options.undirected = undirected;
    const EdgeBlock block = ReadAll(options);
    uint64_t edges = 0;
    for (size_t i = 0; i < block.size(); ++i) {
      edges = edges * 1'000'003 + static_cast<uint64_t>(block.sources[i]);
      edges = edges * 1'000'003 + static_cast<uint64_t>(block.destinations[i]);
    }
    EXPECT_EQ(edges, expected);
    const GeneratedClasses classes(options);
    uint64_t labels = 0;
    for (int64_t node = 0; node < options.num_nodes; ++node) {
      labels =
          labels * 1'000'003 + static_cast<uint64_t>(classes.ClassOf(node));
    }
    EXPECT_EQ(labels, 7881299919173093495u);
  }
}

TEST(ApartCommunityEdgesTest, ThatShareOfEdgesIsInside) {
  for (const int64_t num_communities : {2, 20, 600}) {
    for (const double inside : {0.0, 0.3, 0.8, 1.0}) {
      GenerateOptions options = Options(Kind::kApart, 10'007, 200'000);
      options.graph = CommunityGraph{inside, 2.5, num_communities};
      EXPECT_NEAR(ShareOfSameCommunity(options), inside, 0.005);
    }
  }
}

TEST(ApartCommunityEdgesTest, ClassesAreJoinedMoreOftenThanByChance) {
  const GenerateOptions options = Options(Kind::kApart, 100'000, 500'000);
  // Half of the edges, plus chance: one of 16 others, or a few more because
  // members with many edges are often both ends.
  EXPECT_GT(ShareOfSameClass(options), 0.525);
  EXPECT_LT(ShareOfSameClass(options), 0.56);
}

TEST(ApartCommunityEdgesTest, CommunitiesAreAlike) {
  GenerateOptions options = Options(Kind::kApart, 64'000, 1'000'000);
  options.graph = CommunityGraph{0.8, 2.5, 100};
  const GeneratedClasses classes(options);
  std::vector<int64_t> members(100 * 16);
  for (int64_t node = 0; node < options.num_nodes; ++node) {
    const int64_t community = classes.CommunityOfRank(classes.RankOfNode(node));
    ++members[static_cast<size_t>(community * 16 + classes.ClassOf(node))];
  }
  EXPECT_EQ(members, std::vector<int64_t>(100 * 16, 40));
  std::vector<double> edges(100);
  for (const int64_t node : ReadAll(options).destinations) {
    ++edges[static_cast<size_t>(
        classes.CommunityOfRank(classes.RankOfNode(node)))];
  }
  EXPECT_LT(*std::max_element(edges.begin(), edges.end()),
            2 * *std::min_element(edges.begin(), edges.end()));
}

TEST(ApartCommunityEdgesTest, IdsTellNothingAboutCommunities) {
  GenerateOptions options = Options(Kind::kApart, 100'000, 1);
  options.graph = CommunityGraph{0.8, 2.5, 50};
  const GeneratedClasses classes(options);
  int64_t same = 0;
  for (int64_t node = 1; node < options.num_nodes; ++node) {
    same += classes.CommunityOfRank(classes.RankOfNode(node)) ==
                    classes.CommunityOfRank(classes.RankOfNode(node - 1))
                ? 1
                : 0;
  }
  EXPECT_NEAR(static_cast<double>(same), 2000, 200);
}

TEST(CommunityEdgesTest, DegreesFollowThePowerLaw) {
  constexpr int64_t kNodes = 100'000;
  GenerateOptions options = Options(Kind::kCommunities, kNodes, 10'000'000);
  options.graph = CommunityGraph{0.8, 3.0};
  const EdgeBlock block = ReadAll(options);
  // With exponent 3 the first part p of the nodes has sqrt(p) of the edges,
  const std::vector<int64_t> degrees = Degrees(block.destinations, kNodes);
  EXPECT_NEAR(ShareOfFirst(degrees, 0.01), 0.1, 0.005);
  EXPECT_NEAR(ShareOfFirst(degrees, 0.25), 0.5, 0.01);
  // and the number of nodes with more than d edges falls with d^2.
  const auto more_than = [&](int64_t degree) {
    return static_cast<double>(
        std::count_if(degrees.begin(), degrees.end(),
                      [=](int64_t some) { return some > degree; }));
  };
  EXPECT_NEAR(std::log2(more_than(400) / more_than(800)), 2, 0.2);
  EXPECT_NEAR(ShareOfFirst(Degrees(block.sources, kNodes), 0.01), 0.1, 0.01);
}

TEST(RmatEdgesTest, JoinClassesMoreOftenThanByChance) {
  GenerateOptions options = Options(Kind::kRmat, 1 << 16, 500'000);
  // Half of the edges, plus chance: the sum of (a + d) ^ 4 over the four levels
  // that part 16 classes.
  const double chance = std::pow(0.57 + 0.05, 4);
  EXPECT_NEAR(ShareOfSameClass(options), 0.5 + 0.5 * chance, 0.005);
}

// The first bit of an end's rank is its half of the matrix.
TEST(RmatEdgesTest, QuartersHaveTheirProbabilities) {
  GenerateOptions options = Options(Kind::kRmat, 1 << 16, 400'000);
  options.graph = RmatGraph{0.4, 0.3, 0.2};
  const NodePermutation ids(GeneratorKey(options.seed, GeneratorPart::kNodeIds),
                            options.num_nodes);
  const EdgeBlock block = ReadAll(options);
  double counts[2][2] = {};
  for (size_t i = 0; i < block.size(); ++i) {
    const int64_t row = ids.Invert(block.sources[i]) >> 15;
    const int64_t column = ids.Invert(block.destinations[i]) >> 15;
    counts[row][column] += 1.0 / static_cast<double>(block.size());
  }
  EXPECT_NEAR(counts[0][0], 0.4, 0.005);
  EXPECT_NEAR(counts[0][1], 0.3, 0.005);
  EXPECT_NEAR(counts[1][0], 0.2, 0.005);
  EXPECT_NEAR(counts[1][1], 0.1, 0.005);
}

TEST(RmatRecursionTest, CellsHaveTheProductOfTheirQuarters) {
  const RmatGraph graph{0.5, 0.25, 0.2};
  const RmatRecursion recursion(graph);
  EXPECT_NEAR(recursion.ProbabilityOf(0), std::pow(0.5, 5), 1e-6);
  EXPECT_NEAR(recursion.ProbabilityOf(31), std::pow(0.25, 5), 1e-6);
  EXPECT_NEAR(recursion.ProbabilityOf(31 << 5), std::pow(0.2, 5), 1e-6);
  EXPECT_NEAR(recursion.ProbabilityOf(1023), std::pow(0.05, 5), 1e-6);
  double sum = 0;
  for (uint32_t cell = 0; cell < kRmatCells; ++cell) {
    sum += recursion.ProbabilityOf(cell);
  }
  EXPECT_NEAR(sum, 1, 1e-12);
}

TEST(RmatRecursionTest, CertaintyIsCertain) {
  const RmatRecursion recursion(RmatGraph{0, 1, 0});
  for (uint64_t random = 0; random <= UINT32_MAX; random += 65'521) {
    ASSERT_EQ(recursion.Draw(static_cast<uint32_t>(random)), 31u);
  }
}

}  // namespace
}  // namespace hearth::ingest
