#include "engine/plan/partition/write_partition.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/random.h"
#include "engine/io/atomic_file.h"
#include "engine/io/faulty_file_system.h"
#include "engine/io/file_system.h"
#include "engine/io/scratch_directory.h"
#include "engine/plan/partition/naive_partition.h"
#include "engine/plan/partition/partition.h"
#include "engine/plan/partition/partition_bounds.h"
#include "engine/plan/partition/partition_index.h"
#include "engine/store/dataset.h"
#include "engine/store/list_graph.h"
#include "engine/store/topology.h"
#include "gtest/gtest.h"

namespace hearth::plan {
namespace {

using store::NodeId;

std::vector<NodeId> Ids(const NodeIdSpan& span) {
  return std::visit(
      [](auto ids) { return std::vector<NodeId>(ids.begin(), ids.end()); },
      span);
}

std::vector<NodeId> SomeNodes(int64_t nodes, int percent,
                              RandomStream& random) {
  std::vector<NodeId> some;
  for (NodeId node = 0; node < nodes; ++node) {
    if (static_cast<int>(random.Below(100)) < percent) some.push_back(node);
  }
  return some;
}

/// Isolated nodes, self-loops, repeated edges, and a hub.
store::ListGraph RandomGraph(int64_t nodes, RandomStream& random) {
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

class WritePartitionTest : public ::testing::Test {
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

  /// That what was written is what the naive way gives.
  void ExpectNaive(const store::ListGraph& graph,
                   const std::vector<NodeId>& training_nodes,
                   const PartitionOptions& options) {
    const std::shared_ptr<const Partition> partition = Open();
    const std::vector<uint16_t> parts = *partition->LoadParts();
    EXPECT_EQ(parts, NaivePartition(graph, training_nodes, options));
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

TEST_F(WritePartitionTest, GivesWhatTheNaiveWayGives) {
  RandomStream random(1, RandomPurpose::kGenerator);
  for (int trial = 0; trial < 150; ++trial) {
    SCOPED_TRACE(trial);
    const auto nodes = static_cast<int64_t>(1 + random.Below(200));
    const store::ListGraph graph = RandomGraph(nodes, random);
    // None, some or all.
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

// Many windows, of which a list takes several.
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
    for (int threads = 1; threads <= 4; ++threads) {
      SCOPED_TRACE(threads);
      ASSERT_TRUE(Write(*dataset, training_nodes, options, threads).ok());
      ExpectNaive(graph, training_nodes, options);
    }
  }
}

// Nodes in an order that has nothing to do with their communities, of which
// there are as many as parts.
TEST_F(WritePartitionTest, FindsCommunities) {
  RandomStream random(3, RandomPurpose::kGenerator);
  const store::ListGraph graph = store::MakePlantedGraph(
      {.nodes = 10'000, .communities = 16, .degree = 20}, random);
  const auto dataset = Store(graph);
  const auto once = Write(*dataset, {}, {.parts = 16});
  const auto often = Write(*dataset, {}, {.parts = 16, .rounds = 20});
  ASSERT_TRUE(once.ok() && often.ok());
  // At random, 1 / 16 of the edges would be inner ones.
  EXPECT_GT(once->inner_edges, graph.num_edges() / 4);
  EXPECT_GT(often->inner_edges, once->inner_edges);
  EXPECT_GT(often->rounds, 1);
  EXPECT_LE(often->max_part_nodes, 10'000 * 121 / 1600 + 2);
}

TEST_F(WritePartitionTest, BalancesTrainingNodes) {
  RandomStream random(4, RandomPurpose::kGenerator);
  const store::ListGraph graph = store::MakePlantedGraph(
      {.nodes = 8000, .communities = 16, .degree = 20, .mixing = 5}, random);
  // All in the first tenth.
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

TEST_F(WritePartitionTest, NamesDamageOfTheTopology) {
  RandomStream random(6, RandomPurpose::kGenerator);
  const auto dataset = Store(RandomGraph(150, random));
  for (const char* name : {"edge.indptr.npy", "edge.indices.npy"}) {
    SCOPED_TRACE(name);
    const std::string path = io::JoinPath(dataset->path(), name);
    const std::string whole = *io::ReadWholeFile(Posix(), path, 1 << 20);
    std::string damaged = whole;
    damaged[200] ^= 1;
    ASSERT_TRUE(io::WriteFileAtomically(Posix(), path, damaged).ok());
    const absl::Status status = Write(*dataset, {}, {.parts = 4}).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_NE(status.message().find(absl::StrCat(path, ": block 0")),
              std::string::npos)
        << status;
    EXPECT_TRUE(FilesThere().empty());
    ASSERT_TRUE(io::WriteFileAtomically(Posix(), path, whole).ok());
  }
}

TEST_F(WritePartitionTest, StopsAtAnyStageAndLeavesNothing) {
  RandomStream random(7, RandomPurpose::kGenerator);
  const auto dataset = Store(RandomGraph(100, random));
  std::vector<std::string> stages;
  for (size_t stage = 0; stage <= stages.size(); ++stage) {
    std::stop_source stop;
    std::vector<std::string> seen;
    const absl::Status status =
        WritePartition(
            Posix(), *dataset, {}, {.parts = 9, .rounds = 2},
            {.folder = Folder(),
             .progress =
                 [&](const PartitionProgress& progress) {
                   EXPECT_LE(progress.done_bytes, progress.total_bytes);
                   if (seen.empty() || seen.back() != progress.stage) {
                     seen.push_back(std::string(progress.stage));
                     if (seen.size() == stage + 1) stop.request_stop();
                   }
                 },
             .stop = stop.get_token()})
            .status();
    if (status.ok()) break;
    EXPECT_TRUE(absl::IsCancelled(status)) << status;
    EXPECT_TRUE(FilesThere().empty());
    stages = seen;
  }
  EXPECT_EQ(stages, (std::vector<std::string>{"first level", "inner edges",
                                              "first level", "scattering",
                                              "second level", "cross counts"}));
}

TEST_F(WritePartitionTest, FailsAtAnyCallAndLeavesNothing) {
  RandomStream random(8, RandomPurpose::kGenerator);
  const store::ListGraph graph = RandomGraph(60, random);
  const std::vector<NodeId> training_nodes = SomeNodes(60, 20, random);
  const auto dataset = Store(graph);
  const PartitionOptions options = {.parts = 5};
  io::FaultyFileSystem files(Posix());
  for (const io::Effect effect :
       {io::Effect::kFail, io::Effect::kTearWrite, io::Effect::kLoseReply}) {
    int64_t nth = 1;
    for (;; ++nth) {
      SCOPED_TRACE(absl::StrCat("call ", nth));
      files.Inject({.nth = nth, .effect = effect});
      const absl::Status status =
          WritePartition(files, *dataset, training_nodes, options,
                         {.folder = Folder(), .threads = 2})
              .status();
      const int64_t hits = files.hits();
      files.Clear();
      if (hits == 0) break;
      if (status.ok()) continue;  // Only leftovers could not be removed.
      EXPECT_TRUE(absl::IsUnavailable(status)) << status;
      EXPECT_TRUE(
          absl::IsNotFound(Partition::Open(Posix(), Folder()).status()));
      ASSERT_TRUE(Write(*dataset, training_nodes, options).ok());
      ExpectNaive(graph, training_nodes, options);
    }
    EXPECT_GT(nth, 40);
  }
}

TEST_F(WritePartitionTest, ReadsOnceMoreWhatWasDamagedOnTheWay) {
  RandomStream random(9, RandomPurpose::kGenerator);
  const store::ListGraph graph = RandomGraph(60, random);
  const auto dataset = Store(graph);
  io::FaultyFileSystem files(Posix());
  for (int64_t nth = 1;; ++nth) {
    files.Inject({.nth = nth,
                  .effect = io::Effect::kCorruptRead,
                  .only = io::Operation::kRead});
    const auto summary =
        WritePartition(files, *dataset, {}, {.parts = 5}, {.folder = Folder()});
    const int64_t hits = files.hits();
    files.Clear();
    ASSERT_TRUE(summary.ok()) << summary.status();
    ExpectNaive(graph, {}, {.parts = 5});
    if (hits == 0) break;
  }
}

TEST_F(WritePartitionTest, TellsAFullDisk) {
  RandomStream random(10, RandomPurpose::kGenerator);
  const store::ListGraph graph = RandomGraph(100, random);
  const auto dataset = Store(graph);
  const PartitionOptions options = {.parts = 9};
  const PartitionShape shape = {.nodes = graph.num_nodes(),
                                .edges = graph.num_edges()};
  const uint64_t enough =
      PartitionBytes(shape, options) + PartitionScratchBytes(shape, options);
  for (uint64_t space = 0; space < enough; space += enough / 20) {
    io::FaultyFileSystem files(Posix());
    files.LimitSpace(space);
    const auto summary =
        WritePartition(files, *dataset, {}, options, {.folder = Folder()});
    if (summary.ok()) continue;
    EXPECT_TRUE(absl::IsResourceExhausted(summary.status()))
        << summary.status();
    EXPECT_TRUE(FilesThere().empty());
  }
  io::FaultyFileSystem files(Posix());
  files.LimitSpace(enough);
  const auto summary =
      WritePartition(files, *dataset, {}, options, {.folder = Folder()});
  ASSERT_TRUE(summary.ok()) << summary.status();
  uint64_t bytes = 0;
  for (const std::string& name : FilesThere()) {
    bytes += Posix().Stat(io::JoinPath(Folder(), name))->size_bytes;
  }
  EXPECT_LE(bytes, PartitionBytes(shape, options));
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
