#include "engine/plan/partition/write_partition.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <variant>
#include <vector>

#include "engine/base/random.h"
#include "engine/plan/partition/partition_options.h"
#include "engine/plan/partition/testing/naive_partition.h"
#include "engine/store/dataset.h"
#include "engine/store/testing/list_graph.h"
#include "engine/store/topology.h"
#include "gtest/gtest.h"
#include "tests/fixtures/graphs.h"

namespace hearth::plan {
namespace {

class WritePartitionTest : public PartitionTest {};

TEST_F(WritePartitionTest, GivesWhatTheNaiveWayGives) {
  RandomStream random(1, RandomPurpose::kGenerator);
  for (int trial = 0; trial < 48; ++trial) {
    SCOPED_TRACE(trial);
    const auto nodes = static_cast<int64_t>(1 + random.Below(200));
    const store::ListGraph graph = RandomGraph(nodes, random);
    // No, some or all nodes are training nodes.
    const int percent[] = {0, 1, 30, 100};
    const std::vector<NodeId> training_nodes =
        SomeNodes(nodes, percent[trial % 4], random);
    const PartitionOptions options = {
        .parts = static_cast<int>(1 + random.Below(nodes)),
        .rounds = trial % 3 == 0 ? static_cast<int>(1 + random.Below(12)) : 1,
        .membership = trial % 3 == 1 ? Membership::kBloom : Membership::kExact};
    const auto dataset = Store(graph);
    const auto summary =
        Write(*dataset, training_nodes, options, 1 + trial % 4);
    ASSERT_TRUE(summary.ok()) << summary.status();
    EXPECT_LE(summary->rounds, options.rounds);
    EXPECT_GE(summary->rounds, std::min(options.rounds, 4));
    ExpectNaive(graph, training_nodes, options);
  }
}

// In-neighbors of each node by all edge types, concatenated by type.
store::ListGraph Joined(const store::Dataset& dataset) {
  const auto topology = *dataset.LoadTopology(store::Residency::kMemory);
  store::ListGraph graph;
  for (NodeId node = 0; node < topology->nodes().num_nodes(); ++node) {
    std::vector<NodeId> list;
    for (const store::Relation& relation : topology->relations()) {
      const NodeId local = node - relation.first_destination;
      if (local < 0 || local >= relation.topology.num_nodes()) continue;
      std::visit(
          [&](auto indices) {
            for (int64_t i = relation.topology.indptr[local];
                 i < relation.topology.indptr[local + 1]; ++i) {
              list.push_back(relation.first_source + indices[i]);
            }
          },
          relation.topology.indices);
    }
    graph.Append(list);
  }
  return graph;
}

TEST_F(WritePartitionTest, NodesAndEdgesOfAllTypesAreOneGraph) {
  const auto path = testing::ImportHeteroGraph({}, scratch_.Path("typed"));
  ASSERT_TRUE(path.ok()) << path.status();
  const auto dataset = *store::Dataset::Open(Posix(), *path);
  const store::ListGraph graph = Joined(*dataset);
  const std::vector<NodeId> training_nodes = dataset->LoadSplit()->train;
  EXPECT_GE(training_nodes.front(), 300) << "papers come after authors";
  for (const PartitionOptions& options :
       {PartitionOptions{.parts = 7},
        PartitionOptions{.parts = 40, .rounds = 5},
        PartitionOptions{.parts = 12, .membership = Membership::kBloom}}) {
    const auto summary = Write(*dataset, training_nodes, options);
    ASSERT_TRUE(summary.ok()) << summary.status();
    ExpectNaive(graph, training_nodes, options);
  }
}

// Many windows, and a list that takes several.
TEST_F(WritePartitionTest, GivesTheSameWhateverTheThreads) {
  RandomStream random(2, RandomPurpose::kGenerator);
  store::ListGraph graph =
      store::MakePlantedGraph({.nodes = 20'000, .communities = 30}, random);
  std::vector<NodeId> hub(300'000);
  for (NodeId& neighbor : hub) {
    neighbor = static_cast<NodeId>(random.Below(20'002));
  }
  graph.Append(hub);
  graph.Append({});
  const std::vector<NodeId> training_nodes =
      SomeNodes(graph.num_nodes(), 10, random);
  const auto dataset = Store(graph);
  for (const PartitionOptions& options :
       {PartitionOptions{.parts = 90},
        PartitionOptions{.parts = 90, .rounds = 2},
        PartitionOptions{.parts = 90, .membership = Membership::kBloom}}) {
    const std::vector<uint16_t> expected =
        NaivePartition(graph, training_nodes, options);
    for (int threads = 1; threads <= 4; ++threads) {
      SCOPED_TRACE(threads);
      ASSERT_TRUE(Write(*dataset, training_nodes, options, threads).ok());
      ExpectParts(graph, training_nodes, expected);
    }
  }
}

TEST_F(WritePartitionTest, TakesGraphsWithoutEdges) {
  store::ListGraph graph;
  for (int node = 0; node < 20; ++node) graph.Append({});
  const std::vector<NodeId> training_nodes = {3, 4, 5, 6, 7};
  ASSERT_TRUE(Write(*Store(graph), training_nodes, {.parts = 20}).ok());
  ExpectNaive(graph, training_nodes, {.parts = 20});
}

// Nodes in an order unrelated to their communities, of which there are as many
// as parts.
TEST_F(WritePartitionTest, FindsCommunities) {
  RandomStream random(3, RandomPurpose::kGenerator);
  const store::ListGraph graph = store::MakePlantedGraph(
      {.nodes = 10'000, .communities = 16, .degree = 20}, random);
  const auto dataset = Store(graph);
  const auto once = Write(*dataset, {}, {.parts = 16});
  const auto often = Write(*dataset, {}, {.parts = 16, .rounds = 20});
  ASSERT_TRUE(once.ok() && often.ok());
  // In random parts, 1 / 16 of the edges would be inner ones.
  EXPECT_GT(once->inner_edges, graph.num_edges() / 4);
  EXPECT_GT(often->inner_edges, once->inner_edges);
  EXPECT_GT(often->rounds, 1);
  EXPECT_LE(often->max_part_nodes, 10'000 * 121 / 1600 + 2);
}

TEST_F(WritePartitionTest, BalancesTrainingNodes) {
  RandomStream random(4, RandomPurpose::kGenerator);
  const store::ListGraph graph = store::MakePlantedGraph(
      {.nodes = 8000, .communities = 16, .degree = 20, .mixing = 5}, random);
  // All training nodes are in the first tenth.
  std::vector<NodeId> training_nodes(800);
  std::iota(training_nodes.begin(), training_nodes.end(), 0);
  const auto summary = Write(*Store(graph), training_nodes, {.parts = 16});
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_GE(summary->min_part_training_nodes, 30);
  EXPECT_LE(summary->max_part_training_nodes, 61);
}

TEST_F(WritePartitionTest, RefusesWhatCannotBe) {
  RandomStream random(5, RandomPurpose::kGenerator);
  const auto dataset = Store(RandomGraph(50, random));
  const auto expect_invalid = [&](const std::vector<NodeId>& training_nodes,
                                  const PartitionOptions& options,
                                  const std::string& field) {
    const absl::Status status =
        Write(*dataset, training_nodes, options).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_EQ(status.message().substr(0, field.size()), field) << status;
  };
  expect_invalid({}, {.parts = 0}, "parts: 0 ");
  expect_invalid({}, {.parts = 51}, "parts: 51 ");
  expect_invalid({}, {.parts = 2, .rounds = 0}, "rounds: 0 ");
  expect_invalid({}, {.parts = 2, .rounds = 101}, "rounds: 101 ");
  expect_invalid({},
                 {.parts = 2, .rounds = 2, .membership = Membership::kBloom},
                 "rounds: 2 ");
  expect_invalid({3, 3}, {.parts = 2}, "training_nodes: 3 ");
  expect_invalid({-1}, {.parts = 2}, "training_nodes: -1 ");
  expect_invalid({50}, {.parts = 2}, "training_nodes: 50 ");
  EXPECT_TRUE(FilesThere().empty());
}

TEST(PartitionOptionsTest, TellTheUsualNumberOfParts) {
  EXPECT_EQ(DefaultParts(1'200'000, 1000, 111'000'000), 10'000);
  EXPECT_EQ(DefaultParts(84'000, 128, 8'400'000), 6562);
  EXPECT_EQ(DefaultParts(1000, 3000, 1'000'000), 3);
  EXPECT_EQ(DefaultParts(0, 10, 1'000'000), 1);
  EXPECT_EQ(DefaultParts(1000, 10, 1600), 100);
  EXPECT_EQ(DefaultParts(10, 1, 10), 1);
  EXPECT_EQ(DefaultParts(INT64_MAX, 1, INT64_MAX), 10'000);
}

TEST(PartitionOptionsTest, TellMemoryWithinTheLimit) {
  for (const int64_t nodes : {1'000'000, 111'000'000, 2'000'000'000}) {
    for (const int parts : {1, 2, 100, 10'000, 65'535}) {
      for (const int threads : {1, 2, 16, 64}) {
        for (const Membership membership :
             {Membership::kExact, Membership::kBloom}) {
          const uint64_t bytes = PartitionMemory(
              {.nodes = nodes, .edges = 15 * nodes},
              {.parts = parts, .membership = membership}, threads);
          EXPECT_LE(static_cast<double>(bytes),
                    4.2 * static_cast<double>(nodes) + (512 << 20))
              << nodes << " nodes, " << parts << " parts, " << threads
              << " threads";
        }
      }
    }
  }
}

}  // namespace
}  // namespace hearth::plan
