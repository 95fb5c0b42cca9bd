#include "engine/ingest/import/edge_import.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/random.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/scratch_array.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "engine/store/testing/numpy_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::ingest {

namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

constexpr uint64_t kMiB = 1 << 20;
using Edges = std::vector<std::pair<int64_t, int64_t>>;
using Lists = std::vector<std::vector<int64_t>>;

/// The definition: the transformed neighbors of each node.
Lists Naive(int64_t num_nodes, const Edges& edges,
            const EdgeTransforms& transforms) {
  Lists lists(num_nodes);
  for (const auto& [source, destination] : edges) {
    lists[destination].push_back(source);
    if (transforms.add_reverse) lists[source].push_back(destination);
  }
  for (int64_t node = 0; node < num_nodes; ++node) {
    std::vector<int64_t>& list = lists[node];
    if (transforms.self_loops != SelfLoops::kKeep) std::erase(list, node);
    if (transforms.self_loops == SelfLoops::kAdd) list.push_back(node);
    if (!transforms.remove_duplicates) continue;
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
  return lists;
}

class EdgeImportTest : public testing::Test {
 protected:
  SourceGraph Graph(int64_t num_nodes, const Edges& edges) {
    ImportContext context(files_, kMiB, folder_.scratch().Path("spool"),
                          progress_, {});
    auto spool = *EdgeSpool::Create(context);
    for (const auto& [source, destination] : edges) {
      EXPECT_TRUE(spool->Add(source, destination).ok());
    }
    SourceGraph graph;
    graph.nodes.emplace_back().num_nodes = num_nodes;
    graph.edges.emplace_back().edges = *spool->Finish();
    return graph;
  }

  absl::Status Import(SourceGraph graph, const EdgeTransforms& transforms,
                      uint64_t memory) {
    ImportContext context(files_, memory, folder_.scratch().Path("s/scratch"),
                          progress_, {});
    const absl::Status status = PrepareEdges(graph, transforms, "graph");
    if (!status.ok()) return status;
    auto imported =
        ImportEdges(context, graph.edges[0], graph.EndsOf(graph.edges[0]),
                    transforms, {folder_.path(), "test", "edge"});
    if (!imported.ok()) return imported.status();
    done_ = imported->transforms;
    return absl::OkStatus();
  }

  std::vector<int64_t> Ints(const std::string& name) {
    const auto reader = *ArrayReader::OpenNpy(files_, folder_.Path(name));
    std::vector<int64_t> ints(reader->header().shape[0]);
    EXPECT_TRUE(reader->ReadInts(0, absl::MakeSpan(ints)).ok());
    return ints;
  }

  Lists Result() {
    const std::vector<int64_t> indptr = Ints("edge.indptr.npy");
    const std::vector<int64_t> indices = Ints("edge.indices.npy");
    Lists lists(indptr.size() - 1);
    for (size_t node = 0; node < lists.size(); ++node) {
      lists[node].assign(indices.begin() + indptr[node],
                         indices.begin() + indptr[node + 1]);
    }
    return lists;
  }

  io::FaultyFileSystem files_{io::FileSystem::Posix()};
  store::NumpyFolder folder_;
  ImportProgress progress_;
  std::vector<std::string> done_;
};

struct Case {
  EdgeTransforms transforms;
  /// One edge in `hub` ends in node 1, whose list then does not fit 1 MiB; 0 =
  /// none.
  uint64_t hub = 0;
};

class EdgeTransformsTest : public EdgeImportTest,
                           public testing::WithParamInterface<Case> {};

TEST_P(EdgeTransformsTest, AreAsDefinedWhateverTheMemory) {
  RandomStream random(5, RandomPurpose::kGenerator);
  const int64_t num_nodes = 3000;
  Edges edges;
  for (int i = 0; i < 60'000; ++i) {
    const auto source = static_cast<int64_t>(random.Below(num_nodes));
    const bool hub = GetParam().hub > 0 && random.Below(GetParam().hub) == 0;
    edges.emplace_back(
        source,
        hub ? 1
            : (source + static_cast<int64_t>(random.Below(30))) % num_nodes);
  }
  const Lists expected = Naive(num_nodes, edges, GetParam().transforms);
  for (const uint64_t memory : {64 * kMiB, kMiB}) {
    const absl::Status status =
        Import(Graph(num_nodes, edges), GetParam().transforms, memory);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_TRUE(Result() == expected) << memory;
  }
}

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const bool reverse : {false, true}) {
    for (const bool duplicates : {false, true}) {
      for (const SelfLoops loops :
           {SelfLoops::kKeep, SelfLoops::kRemove, SelfLoops::kAdd}) {
        for (const uint64_t hub : {0, 2}) {
          cases.push_back({{reverse, duplicates, loops}, hub});
        }
      }
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, EdgeTransformsTest,
                         testing::ValuesIn(AllCases()));

TEST_F(EdgeImportTest, DamageOnTheWayIsNeverTakenIn) {
  Edges edges;
  for (int64_t i = 0; i < 2000; ++i) edges.emplace_back(i * 7 % 100, i % 90);
  const EdgeTransforms transforms = {false, true, SelfLoops::kAdd};
  const Lists expected = Naive(100, edges, transforms);
  for (const bool for_good : {false, true}) {
    int64_t refused = 0, nth = 1;
    for (bool hit = true; hit; ++nth) {
      SourceGraph graph = Graph(100, edges);
      files_.Inject({.nth = nth,
                     .for_good = for_good,
                     .effect = io::Effect::kCorruptRead});
      const absl::Status status = Import(std::move(graph), transforms, kMiB);
      hit = files_.hits() > 0;
      files_.Clear();
      if (status.ok()) {
        EXPECT_TRUE(Result() == expected) << nth;
      } else {
        ++refused;
        EXPECT_TRUE(hit) << status;
      }
    }
    EXPECT_EQ(for_good, refused == nth - 2) << refused << " of " << nth - 2;
  }
}

TEST_F(EdgeImportTest, CountsWhatItDid) {
  const Edges edges = {{0, 1}, {0, 1}, {1, 1}, {1, 1}, {2, 0}, {0, 1}};
  ASSERT_TRUE(
      Import(Graph(3, edges), {false, true, SelfLoops::kAdd}, kMiB).ok());
  EXPECT_THAT(done_, testing::ElementsAre("edge: sorted by destination",
                                          "edge: 2 duplicate edges removed",
                                          "edge: 1 self loops removed",
                                          "edge: 2 self loops added"));
  ASSERT_TRUE(Import(Graph(3, edges), {.add_reverse = true}, kMiB).ok());
  EXPECT_THAT(done_, Contains("edge: 6 reverse edges added"));
}

TEST_F(EdgeImportTest, ListsOfEdgesBetweenTypesDoNotChange) {
  SourceGraph graph = Graph(3, {{0, 1}});
  SourceNodes& other = graph.nodes.emplace_back();
  other.type = "other";
  other.num_nodes = 3;
  graph.edges[0].destination_type = "other";
  const absl::Status status = PrepareEdges(
      graph, {.add_reverse = true, .remove_duplicates = true}, "graph");
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_TRUE(PrepareEdges(graph, {.add_reverse = true}, "graph").ok());
  EXPECT_EQ(graph.edges[0].num_edges(), 1);
}

// ---- Sources in CSC

class CscSourceTest : public EdgeImportTest {
 protected:
  SourceGraph Open(const std::vector<int64_t>& indptr,
                   const std::vector<int64_t>& indices) {
    folder_.Write("p.npy", {"<i8", "(" + std::to_string(indptr.size()) + ",)",
                            store::Raw(indptr)});
    folder_.Write("i.npy", {"<i8", "(" + std::to_string(indices.size()) + ",)",
                            store::Raw(indices)});
    SourceGraph graph;
    graph.nodes.emplace_back().num_nodes =
        static_cast<int64_t>(indptr.size()) - 1;
    SourceEdges& edges = graph.edges.emplace_back();
    edges.indptr = *ArrayReader::OpenNpy(files_, folder_.Path("p.npy"));
    edges.indices = *ArrayReader::OpenNpy(files_, folder_.Path("i.npy"));
    return graph;
  }

  void ExpectError(SourceGraph graph, const std::string& problem) {
    const absl::Status status =
        Import(std::move(graph), {.add_reverse = true}, kMiB);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(problem));
  }
};

TEST_F(CscSourceTest, IsTransformedAsAList) {
  // Node 0 and the last node have no edges.
  const absl::Status status = Import(Open({0, 0, 3, 4, 4}, {2, 0, 2, 1}),
                                     {true, true, SelfLoops::kKeep}, kMiB);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(Result(), (Lists{{1}, {0, 2}, {1}, {}}));
}

TEST_F(CscSourceTest, WithoutEdges) {
  ASSERT_TRUE(
      Import(Open({0, 0, 0}, {}), {.self_loops = SelfLoops::kAdd}, kMiB).ok());
  EXPECT_EQ(Result(), (Lists{{0}, {1}}));
}

TEST_F(CscSourceTest, MalformedOffsetsAndIds) {
  ExpectError(Open({1, 2}, {0, 0}), "p.npy: [0] is 1, not 0");
  ExpectError(Open({0, 1}, {0, 0}), "p.npy: [1] is 1, but ");
  ExpectError(Open({0, 2, 1, 2}, {0, 0}), "p.npy: [2] is 1, less than 2");
  ExpectError(Open({0, 3, 2}, {0, 0}), "p.npy: [1] is 3, more than 2 edges");
  ExpectError(Open({0, 2, 5, 2}, {0, 0}), "p.npy: [2] is 5, more than 2");
  ExpectError(Open({0, 1, 0}, {}), "p.npy: [1] is 1, more than 0");
  ExpectError(Open({0, 1, 2}, {0, 2}), "i.npy: [1] is 2; node ids are 0 .. 1");
}

struct Names {
  std::string type, source, destination;
};

std::vector<std::pair<size_t, std::string>> Reverse(
    const std::vector<Names>& edges) {
  SourceGraph graph;
  for (const Names& names : edges) {
    SourceEdges& type = graph.edges.emplace_back();
    type.type = names.type;
    type.source_type = names.source;
    type.destination_type = names.destination;
  }
  std::vector<std::pair<size_t, std::string>> reverse;
  for (const ReverseType& type : ReverseTypesOf(graph)) {
    reverse.emplace_back(type.edge_type, type.name);
  }
  return reverse;
}

TEST(ReverseTypesTest, AreNamedAfterTheTypesThatJoinTwoNodeTypes) {
  EXPECT_THAT(
      Reverse({{"a:writes:p", "a", "p"},
               {"p:cites:p", "p", "p"},
               {"v:publishes:p", "v", "p"}}),
      ElementsAre(Pair(0, "p:rev_writes:a"), Pair(2, "p:rev_publishes:v")));
}

TEST(ReverseTypesTest, NameWithoutItsEndsIsPrefixedWhole) {
  EXPECT_THAT(Reverse({{"writes", "a", "p"}}),
              ElementsAre(Pair(0, "rev_writes")));
  EXPECT_THAT(Reverse({{"a:p", "a", "p"}}), ElementsAre(Pair(0, "rev_a:p")));
}

TEST(ReverseTypesTest, ATypeThatHasItsReverseGetsNone) {
  EXPECT_THAT(Reverse({{"a:writes:p", "a", "p"}, {"p:rev_writes:a", "p", "a"}}),
              IsEmpty());
  EXPECT_THAT(Reverse({{"rev_writes", "p", "a"}, {"writes", "a", "p"}}),
              IsEmpty());
  // A type that is the reverse of another relation gets a reverse, too.
  EXPECT_THAT(Reverse({{"p:rev_writes:a", "p", "a"}}),
              ElementsAre(Pair(0, "a:rev_rev_writes:p")));
}

}  // namespace

}  // namespace hearth::ingest
