#ifndef HEARTH_ENGINE_PLAN_PARTITION_TESTING_NAIVE_PARTITION_H_
#define HEARTH_ENGINE_PLAN_PARTITION_TESTING_NAIVE_PARTITION_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/random.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/plan/partition/partition.h"
#include "engine/plan/partition/partition_options.h"
#include "engine/plan/partition/write_partition.h"
#include "engine/store/dataset.h"
#include "engine/store/testing/list_graph.h"
#include "engine/store/topology.h"
#include "gtest/gtest.h"

/// Partitions for tests, made in the plainest way: everything in memory, every
/// part asked for every node, one node after another.

namespace hearth::plan {

/// Part of each node that WritePartition must give it.
std::vector<uint16_t> NaivePartition(
    const store::ListGraph& graph,
    absl::Span<const store::NodeId> training_nodes,
    const PartitionOptions& options);

/// Neighbors of each node in other parts.
std::vector<uint32_t> NaiveCrossCounts(const store::ListGraph& graph,
                                       absl::Span<const uint16_t> parts);

using store::NodeId;

inline std::vector<NodeId> Ids(const NodeIdSpan& span) {
  return std::visit(
      [](auto ids) { return std::vector<NodeId>(ids.begin(), ids.end()); },
      span);
}

inline std::vector<NodeId> SomeNodes(int64_t nodes, int percent,
                                     RandomStream& random) {
  std::vector<NodeId> some;
  for (NodeId node = 0; node < nodes; ++node) {
    if (static_cast<int>(random.Below(100)) < percent) some.push_back(node);
  }
  return some;
}

/// A random graph with isolated nodes, self-loops, repeated edges, and a hub.
inline store::ListGraph RandomGraph(int64_t nodes, RandomStream& random) {
  store::ListGraph graph;
  const auto hub = static_cast<NodeId>(random.Below(nodes));
  const uint64_t most = 1 + random.Below(12);
  for (NodeId node = 0; node < nodes; ++node) {
    std::vector<NodeId> list(random.Below(4) == 0 ? 0 : random.Below(most));
    if (node == hub) list.resize(5 * static_cast<size_t>(nodes));
    for (NodeId& neighbor : list) {
      neighbor =
          random.Below(5) == 0 ? hub : static_cast<NodeId>(random.Below(nodes));
    }
    graph.Append(list);
  }
  return graph;
}

/// Partitions small graphs into a folder, and checks the files.
class PartitionTest : public ::testing::Test {
 protected:
  std::unique_ptr<store::Dataset> Store(const store::ListGraph& graph) {
    auto dataset = store::StoreGraph(Posix(), scratch_.Path("dataset"), graph);
    EXPECT_TRUE(dataset.ok()) << dataset.status();
    return *std::move(dataset);
  }

  absl::StatusOr<PartitionSummary> Write(
      const store::Dataset& dataset, const std::vector<NodeId>& training_nodes,
      const PartitionOptions& options, int threads = 2) {
    return WritePartition(Posix(), dataset, training_nodes, options,
                          {.folder = Folder(), .threads = threads});
  }

  std::shared_ptr<const Partition> Open() {
    auto partition = Partition::Open(Posix(), Folder());
    EXPECT_TRUE(partition.ok()) << partition.status();
    return *std::move(partition);
  }

  /// Expects that the files equal the naive partition.
  void ExpectNaive(const store::ListGraph& graph,
                   const std::vector<NodeId>& training_nodes,
                   const PartitionOptions& options) {
    ExpectParts(graph, training_nodes,
                NaivePartition(graph, training_nodes, options));
  }

  /// Expects that the files hold these parts, and everything that follows from
  /// them.
  void ExpectParts(const store::ListGraph& graph,
                   const std::vector<NodeId>& training_nodes,
                   const std::vector<uint16_t>& parts) {
    const std::shared_ptr<const Partition> partition = Open();
    EXPECT_EQ(*partition->LoadParts(), parts);
    const std::vector<uint32_t> cross = NaiveCrossCounts(graph, parts);
    EXPECT_EQ(*partition->LoadCrossCounts(), cross);
    ExpectLists(graph, training_nodes, parts, *partition);
    ExpectSummary(graph, training_nodes, parts, cross, partition->summary());
  }

  static void ExpectLists(const store::ListGraph& graph,
                          const std::vector<NodeId>& training_nodes,
                          const std::vector<uint16_t>& parts,
                          const Partition& partition) {
    for (int part = 0; part < partition.parts(); ++part) {
      std::vector<NodeId> nodes, neighbors, training;
      std::vector<int64_t> ends;
      for (NodeId node = 0; node < graph.num_nodes(); ++node) {
        if (parts[node] != part) continue;
        nodes.push_back(node);
        const auto list = graph.list(node);
        neighbors.insert(neighbors.end(), list.begin(), list.end());
        ends.push_back(static_cast<int64_t>(neighbors.size()));
      }
      for (const NodeId node : training_nodes) {
        if (parts[node] == part) training.push_back(node);
      }
      const absl::StatusOr<PartLists> lists = partition.ReadPart(part);
      ASSERT_TRUE(lists.ok()) << lists.status();
      EXPECT_EQ(Ids(lists->nodes), nodes);
      EXPECT_EQ(Ids(lists->neighbors), neighbors);
      EXPECT_EQ(lists->ends, ends);
      EXPECT_EQ(lists->memory.bytes().size(), partition.part_list_bytes(part));
      EXPECT_EQ(partition.training_nodes(part), training);
      EXPECT_EQ(partition.num_nodes(part), std::ssize(nodes));
      EXPECT_EQ(partition.num_neighbors(part), std::ssize(neighbors));
    }
  }

  static void ExpectSummary(const store::ListGraph& graph,
                            const std::vector<NodeId>& training_nodes,
                            const std::vector<uint16_t>& parts,
                            const std::vector<uint32_t>& cross,
                            const PartitionSummary& summary) {
    int64_t loops = 0;
    for (NodeId node = 0; node < graph.num_nodes(); ++node) {
      const auto list = graph.list(node);
      loops += std::count(list.begin(), list.end(), node);
    }
    EXPECT_EQ(summary.nodes, graph.num_nodes());
    EXPECT_EQ(summary.edges, graph.num_edges());
    EXPECT_EQ(summary.training_nodes, std::ssize(training_nodes));
    EXPECT_EQ(summary.cut_edges,
              std::accumulate(cross.begin(), cross.end(), int64_t{0}));
    EXPECT_EQ(summary.inner_edges, summary.edges - summary.cut_edges - loops);
    std::vector<int64_t> nodes(summary.options.parts);
    std::vector<int64_t> training(summary.options.parts);
    for (const uint16_t part : parts) ++nodes[part];
    for (const NodeId node : training_nodes) ++training[parts[node]];
    EXPECT_EQ(summary.min_part_nodes, *std::ranges::min_element(nodes));
    EXPECT_EQ(summary.max_part_nodes, *std::ranges::max_element(nodes));
    EXPECT_EQ(summary.min_part_training_nodes,
              *std::ranges::min_element(training));
    EXPECT_EQ(summary.max_part_training_nodes,
              *std::ranges::max_element(training));
  }

  std::string Folder() const { return scratch_.Path("plan"); }

  std::vector<std::string> FilesThere() {
    const auto names = Posix().List(Folder());
    return names.ok() ? *names : std::vector<std::string>();
  }

  static io::FileSystem& Posix() { return io::FileSystem::Posix(); }

  const io::ScratchDirectory scratch_;
};

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_PARTITION_TESTING_NAIVE_PARTITION_H_
