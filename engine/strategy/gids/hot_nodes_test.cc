#include "engine/strategy/gids/hot_nodes.h"

#include <numeric>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/store/dataset.h"
#include "engine/store/graph.h"
#include "engine/store/topology.h"
#include "gtest/gtest.h"

namespace hearth::strategy {

namespace {

using Nodes = std::vector<store::NodeId>;

TEST(HottestNodesTest, TakesTheHottestAndOfEqualOnesTheFirst) {
  const NodeScores scores = {0.5f, 2, 0.5f, 0, 2, 1};
  EXPECT_EQ(HottestNodes(scores, 0), Nodes());
  EXPECT_EQ(HottestNodes(scores, 1), Nodes({1}));
  EXPECT_EQ(HottestNodes(scores, 3), Nodes({1, 4, 5}));
  EXPECT_EQ(HottestNodes(scores, 4), Nodes({0, 1, 4, 5}));
  EXPECT_EQ(HottestNodes(scores, 6), Nodes({0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(HottestNodes(scores, 100), Nodes({0, 1, 2, 3, 4, 5}));
}

TEST(NodeScoresTest, FilesGiveBackWhatWasWritten) {
  io::FileSystem& files = io::FileSystem::Posix();
  const io::ScratchDirectory scratch;
  const std::string path = scratch.Path("scores");
  EXPECT_TRUE(absl::IsNotFound(ReadNodeScores(files, path, 4).status()));
  const NodeScores scores = {1, 0.25f, 0, 7};
  ASSERT_TRUE(WriteNodeScores(files, path, scores).ok());
  const auto read = ReadNodeScores(files, path, 4);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, scores);
  EXPECT_EQ(files.Stat(path)->size_bytes, NodeScoresFileBytes(4));
  EXPECT_TRUE(absl::IsDataLoss(ReadNodeScores(files, path, 5).status()))
      << "of another graph";
}

class ListedTopology final : public store::SingleTopology {
 public:
  // in_neighbors[v]: the in-neighbors of node v.
  explicit ListedTopology(
      const std::vector<std::vector<int32_t>>& in_neighbors) {
    indptr_.push_back(0);
    for (const auto& list : in_neighbors) {
      indices_.insert(indices_.end(), list.begin(), list.end());
      indptr_.push_back(static_cast<int64_t>(indices_.size()));
    }
    SetView({.indptr = indptr_, .indices = absl::MakeConstSpan(indices_)});
  }

  absl::Status status() const override { return error; }

  absl::Status error;

 private:
  std::vector<int64_t> indptr_;
  std::vector<int32_t> indices_;
};

// Edge types between two papers, 0 and 1, and three authors, 2 .. 4: authors
// write papers, and papers cite papers.
class TwoEdgeTypes final : public store::LoadedTopology {
 public:
  TwoEdgeTypes()
      : writes_({{0, 1, 2}, {}}),
        cites_({{1}, {0}}),
        relations_(
            {store::Relation{.topology = writes_.view(),
                             .type = 0,
                             .first_source = 2,
                             .num_sources = 3},
             store::Relation{
                 .topology = cites_.view(), .type = 1, .num_sources = 2}}) {}

  const store::Topology& view() const override { return writes_.view(); }
  absl::Span<const store::Relation> relations() const override {
    return relations_;
  }
  const store::NodeSpace& nodes() const override { return nodes_; }
  absl::Status status() const override { return absl::OkStatus(); }

 private:
  const ListedTopology writes_;
  const ListedTopology cites_;
  const std::vector<store::Relation> relations_;
  const store::NodeSpace nodes_{std::vector<int64_t>{2, 3}};
};

std::vector<double> Rank(const ListedTopology& topology,
                         const std::vector<store::NodeId>& training,
                         const ReversePageRankOptions& options = {}) {
  const auto scores = ReversePageRank(topology, training, options, {});
  EXPECT_TRUE(scores.ok()) << scores.status();
  return *scores;
}

// Leaves 1, 2 and 3 have the hub 0 as their only in-neighbor: sampling goes
// from them to it, never back.
TEST(ReversePageRankTest, FlowsFromNodesToTheirInNeighbors) {
  const ListedTopology star({{}, {0}, {0}, {0}});
  const std::vector<double> scores = Rank(star, {1, 2});
  EXPECT_DOUBLE_EQ(scores[1], 0.15 / 2);
  EXPECT_DOUBLE_EQ(scores[2], 0.15 / 2);
  EXPECT_DOUBLE_EQ(scores[3], 0) << "no training node, and nobody's neighbor";
  EXPECT_DOUBLE_EQ(scores[0], 0.85 * 0.15);
  // The hub has no in-neighbors.
  const std::vector<double> from_hub = Rank(star, {0});
  EXPECT_DOUBLE_EQ(from_hub[0], 0.15);
  EXPECT_DOUBLE_EQ(from_hub[1], 0);
}

// Reverse PageRank by its definition, with a matrix.
TEST(ReversePageRankTest, IsTheSumOfItsDefinition) {
  const std::vector<std::vector<int32_t>> lists = {
      {1, 2, 2}, {0}, {3, 4}, {}, {4, 0, 1}};
  const std::vector<store::NodeId> training = {0, 4};
  for (const int iterations : {0, 1, 7}) {
    std::vector<double> expected = {0.5, 0, 0, 0, 0.5};
    const std::vector<double> start = expected;
    for (int i = 0; i < iterations; ++i) {
      std::vector<double> next(5);
      for (size_t u = 0; u < 5; ++u) {
        next[u] = (1 - 0.6) * start[u];
        for (size_t v = 0; v < 5; ++v) {
          for (const int32_t neighbor : lists[v]) {
            if (static_cast<size_t>(neighbor) != u) continue;
            next[u] += 0.6 * expected[v] / static_cast<double>(lists[v].size());
          }
        }
      }
      expected = next;
    }
    const std::vector<double> scores =
        Rank(ListedTopology(lists), training,
             {.damping = 0.6, .iterations = iterations});
    for (size_t u = 0; u < 5; ++u) EXPECT_NEAR(scores[u], expected[u], 1e-12);
  }
}

TEST(ReversePageRankTest, WithoutDeadEndsScoresAddUpToOne) {
  const ListedTopology ring({{1}, {2}, {3}, {0}});
  const std::vector<double> scores = Rank(ring, {0, 1});
  EXPECT_NEAR(std::accumulate(scores.begin(), scores.end(), 0.0), 1, 1e-12);
  EXPECT_EQ(Rank(ring, {}), std::vector<double>(4));
}

TEST(ReversePageRankTest, TellsStopsAndPagesThatCannotBeRead) {
  ListedTopology ring({{1}, {0}});
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(
      ReversePageRank(ring, {}, {}, stop.get_token()).status()));
  ring.error = absl::DataLossError("page");
  EXPECT_TRUE(absl::IsDataLoss(ReversePageRank(ring, {}, {}, {}).status()));
}

// Paper 0 draws two of its three authors and its one citation, so that two
// thirds of its score go to authors; paper 1 has its citation alone.
TEST(ReversePageRankTest, ScoresAreSplitAsNeighborsAreDrawn) {
  const TwoEdgeTypes topology;
  const std::vector<store::NodeId> training = {0};
  const auto scores = ReversePageRank(
      topology, training,
      {.damping = 0.9, .iterations = 1, .sampler = {.fanouts = {2}}}, {});
  ASSERT_TRUE(scores.ok()) << scores.status();
  EXPECT_NEAR((*scores)[0], 0.1, 1e-12);
  EXPECT_NEAR((*scores)[1], 0.9 / 3, 1e-12);
  for (size_t author = 2; author < 5; ++author) {
    EXPECT_NEAR((*scores)[author], 0.9 * 2 / 3 / 3, 1e-12);
  }
}

}  // namespace

}  // namespace hearth::strategy
