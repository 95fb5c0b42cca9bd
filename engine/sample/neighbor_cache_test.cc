#include "engine/sample/neighbor_cache.h"

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/io/whole_file.h"
#include "engine/sample/graph_fixture.h"
#include "engine/store/topology.h"
#include "gtest/gtest.h"

namespace hearth::sample {
namespace {

using store::NodeId;
using store::StoredTopology;

constexpr uint64_t kOffset = 128;

class NeighborCacheTest : public ::testing::TestWithParam<bool> {
 protected:
  // Writes the indices behind a header, with 8 bytes each if the parameter says
  // so.
  StoredTopology Store(const Graph& graph) {
    std::string contents(kOffset, 'h');
    if (GetParam()) {
      contents.append(reinterpret_cast<const char*>(graph.wide_indices.data()),
                      graph.wide_indices.size() * 8);
    } else {
      contents.append(reinterpret_cast<const char*>(graph.indices.data()),
                      graph.indices.size() * 4);
    }
    EXPECT_TRUE(
        io::WriteFileAtomically(posix_, scratch_.Path("indices"), contents)
            .ok());
    return StoredTopology::Single(graph.indptr,
                                  {.path = scratch_.Path("indices"),
                                   .offset = kOffset,
                                   .index_bytes = index_bytes()});
  }

  int index_bytes() const { return GetParam() ? 8 : 4; }

  // Bytes of the example's table and of `neighbors` neighbors.
  uint64_t TableAnd(uint64_t neighbors) const {
    return 4 * 8 + neighbors * static_cast<uint64_t>(index_bytes());
  }

  // Nodes of the example whose lists are in the cache.
  static std::vector<NodeId> NodesOf(const NeighborCache& cache) {
    std::vector<NodeId> nodes;
    for (NodeId node = 0; node < 4; ++node) {
      if (cache.Find(node) != NeighborCache::kAbsent) nodes.push_back(node);
    }
    return nodes;
  }

  static void ExpectLists(const Graph& graph, const NeighborCache& cache) {
    int64_t lists = 0;
    int64_t neighbors = 0;
    for (size_t node = 0; node + 1 < graph.indptr.size(); ++node) {
      const int64_t place = cache.Find(static_cast<NodeId>(node));
      if (place == NeighborCache::kAbsent) continue;
      const int64_t degree = graph.indptr[node + 1] - graph.indptr[node];
      ++lists;
      neighbors += degree;
      for (int64_t i = 0; i < degree; ++i) {
        EXPECT_EQ(cache.At(place + i), graph.indices[graph.indptr[node] + i]);
      }
    }
    EXPECT_EQ(lists, cache.num_lists());
    EXPECT_EQ(neighbors, cache.num_neighbors());
  }

  io::FileSystem& posix_ = io::FileSystem::Posix();
  io::FaultyFileSystem faulty_{posix_};
  const io::ScratchDirectory scratch_;
};

// Out-degrees: 0: 3, 1: 1, 2: 2, 3: 2. In-degrees: 0: 4, 1: 2, 2: 0, 3: 2.
Graph Example() {
  Graph graph;
  graph.AddRow({1, 2, 3, 0});
  graph.AddRow({0, 3});
  graph.AddRow({});
  graph.AddRow({0, 2});
  return graph;
}

TEST_P(NeighborCacheTest, TakesTheHighestRatiosThatFit) {
  const Graph graph = Example();
  const StoredTopology topology = Store(graph);
  const auto inside = [&](uint64_t lists) {
    const auto cache = NeighborCache::Build(
        posix_, topology, {.budget_bytes = TableAnd(lists)}, {});
    EXPECT_TRUE(cache.ok()) << cache.status();
    ExpectLists(graph, *cache);
    EXPECT_EQ(*NeighborCache::Choose(posix_, topology,
                                     {.budget_bytes = TableAnd(lists)}, {}),
              NodesOf(*cache));
    return NodesOf(*cache);
  };
  // Ratios: node 3: 1, node 0: 3 / 4, node 1: 1 / 2.
  EXPECT_EQ(inside(1), std::vector<NodeId>{});
  EXPECT_EQ(inside(2), std::vector<NodeId>{3});
  EXPECT_EQ(inside(4), (std::vector<NodeId>{1, 3})) << "0 does not fit";
  EXPECT_EQ(inside(6), (std::vector<NodeId>{0, 3}));
  EXPECT_EQ(inside(8), (std::vector<NodeId>{0, 1, 3}));
  EXPECT_EQ(inside(1000), (std::vector<NodeId>{0, 1, 3}));
}

TEST_P(NeighborCacheTest, TakesTheHighestCrossCountsThatFit) {
  const Graph graph = Example();
  const StoredTopology topology = Store(graph);
  // Node 2 has no neighbors to keep, whatever its count.
  const std::vector<uint32_t> cross_counts = {1, 2, 9, 1};
  const auto inside = [&](uint64_t lists) {
    faulty_.Clear();
    const size_t calls = faulty_.calls().size();
    const auto cache = NeighborCache::Build(
        faulty_, topology,
        {.budget_bytes = TableAnd(lists), .cross_counts = cross_counts}, {});
    EXPECT_TRUE(cache.ok()) << cache.status();
    EXPECT_LE(faulty_.calls().size() - calls, 2u) << "one scan of one chunk";
    ExpectLists(graph, *cache);
    return NodesOf(*cache);
  };
  EXPECT_EQ(inside(1), std::vector<NodeId>{});
  EXPECT_EQ(inside(2), std::vector<NodeId>{1});
  EXPECT_EQ(inside(4), (std::vector<NodeId>{1, 3})) << "0 does not fit";
  EXPECT_EQ(inside(6), (std::vector<NodeId>{0, 1})) << "the smaller number";
  EXPECT_EQ(inside(8), (std::vector<NodeId>{0, 1, 3}));
}

TEST_P(NeighborCacheTest, StaysWithinItsBudget) {
  const Graph graph = RandomGraph(700);
  const StoredTopology topology = Store(graph);
  for (const uint64_t budget : {0, 5599, 5600, 6000, 20000, 1 << 20}) {
    const auto cache =
        NeighborCache::Build(posix_, topology, {.budget_bytes = budget}, {});
    ASSERT_TRUE(cache.ok()) << cache.status();
    EXPECT_LE(cache->memory_bytes(), budget);
    ExpectLists(graph, *cache);
  }
}

TEST_P(NeighborCacheTest, TheRoomlessCacheHasNoLists) {
  const NeighborCache cache;
  EXPECT_EQ(cache.Find(1234), NeighborCache::kAbsent);
  cache.Prefetch(1234);
}

// Lists that extend over several chunks of a scan.
TEST_P(NeighborCacheTest, ListsMayBeLongerThanAChunk) {
  Graph graph;
  std::vector<int32_t> sources(3'000'000);
  for (size_t i = 0; i < sources.size(); ++i) {
    sources[i] = static_cast<int32_t>(i % 3);
  }
  graph.AddRow({2});
  graph.AddRow(sources);
  graph.AddRow({1, 1});
  const auto cache = NeighborCache::Build(
      posix_, Store(graph), {.budget_bytes = uint64_t{1} << 30}, {});
  ASSERT_TRUE(cache.ok()) << cache.status();
  ExpectLists(graph, *cache);
  EXPECT_EQ(cache->num_lists(), 3);
}

TEST_P(NeighborCacheTest, ComesBackFromItsFile) {
  const Graph graph = RandomGraph(700);
  const auto built =
      *NeighborCache::Build(posix_, Store(graph), {.budget_bytes = 20000}, {});
  const std::string path = scratch_.Path("dump");
  ASSERT_TRUE(built.Dump(posix_, path).ok());
  const auto loaded = NeighborCache::Load(posix_, path);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->num_lists(), built.num_lists());
  EXPECT_EQ(loaded->memory_bytes(), built.memory_bytes());
  ExpectLists(graph, *loaded);
  ASSERT_TRUE(NeighborCache().Dump(posix_, path).ok());
  EXPECT_EQ(NeighborCache::Load(posix_, path)->Find(7), NeighborCache::kAbsent);
}

TEST_P(NeighborCacheTest, DamageIsNamedByFileAndOffset) {
  const auto built = *NeighborCache::Build(posix_, Store(RandomGraph(700)),
                                           {.budget_bytes = 20000}, {});
  const std::string path = scratch_.Path("dump");
  ASSERT_TRUE(built.Dump(posix_, path).ok());
  const std::string whole = *io::ReadWholeFile(posix_, path, 1 << 20);
  for (const size_t at : {size_t{3}, size_t{20}, size_t{4096}, size_t{15000},
                          whole.size() - 6, whole.size() - 1}) {
    std::string bent = whole;
    bent[at] ^= 1;
    ASSERT_TRUE(io::WriteFileAtomically(posix_, path, bent).ok());
    const absl::Status status = NeighborCache::Load(posix_, path).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << at << ": " << status;
    EXPECT_NE(status.message().find(path), absl::string_view::npos);
  }
  ASSERT_TRUE(
      io::WriteFileAtomically(posix_, path, whole.substr(0, 9000)).ok());
  EXPECT_TRUE(absl::IsDataLoss(NeighborCache::Load(posix_, path).status()));
}

TEST_P(NeighborCacheTest, DamageOnTheWayIsReadOnceMore) {
  const Graph graph = RandomGraph(700);
  const auto built =
      *NeighborCache::Build(posix_, Store(graph), {.budget_bytes = 20000}, {});
  const std::string path = scratch_.Path("dump");
  ASSERT_TRUE(built.Dump(posix_, path).ok());
  // Header, checksums, block.
  faulty_.Inject({.nth = 3,
                  .effect = io::Effect::kCorruptRead,
                  .only = io::Operation::kRead});
  const auto loaded = NeighborCache::Load(faulty_, path);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(faulty_.hits(), 1);
  ExpectLists(graph, *loaded);
}

TEST_P(NeighborCacheTest, AFailedDumpLeavesNothing) {
  const auto built = *NeighborCache::Build(posix_, Store(RandomGraph(700)),
                                           {.budget_bytes = 20000}, {});
  const std::string path = scratch_.Path("dump");
  for (int64_t nth = 1;; ++nth) {
    faulty_.Inject({.nth = nth});
    const absl::Status status = built.Dump(faulty_, path);
    if (faulty_.hits() == 0) break;
    EXPECT_TRUE(absl::IsUnavailable(status)) << nth;
    EXPECT_TRUE(absl::IsNotFound(posix_.Stat(path).status())) << nth;
  }
  faulty_.Clear();
  faulty_.LimitSpace(10000);
  EXPECT_TRUE(absl::IsResourceExhausted(built.Dump(faulty_, path)));
  EXPECT_TRUE(absl::IsNotFound(posix_.Stat(path).status()));
}

TEST_P(NeighborCacheTest, FailedReadsAndStopsEndTheBuild) {
  const Graph graph = RandomGraph(700);
  const StoredTopology topology = Store(graph);
  for (int64_t nth = 1;; ++nth) {
    faulty_.Inject({.nth = nth, .for_good = true});
    const absl::Status status =
        NeighborCache::Build(faulty_, topology, {.budget_bytes = 20000}, {})
            .status();
    if (faulty_.hits() == 0) break;
    EXPECT_TRUE(absl::IsUnavailable(status)) << nth;
  }
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(NeighborCache::Build(posix_, topology,
                                                     {.budget_bytes = 20000},
                                                     stop.get_token())
                                    .status()));
}

TEST_P(NeighborCacheTest, ANeighborThatIsNoNodeIsDamage) {
  for (const int32_t bad : {4, -1}) {
    Graph graph = Example();
    graph.indices[5] = bad;
    graph.wide_indices[5] = bad;
    const StoredTopology topology = Store(graph);
    for (const auto& cross_counts :
         {std::vector<uint32_t>(), std::vector<uint32_t>(4)}) {
      const absl::Status status =
          NeighborCache::Build(
              posix_, topology,
              {.budget_bytes = 1000, .cross_counts = cross_counts}, {})
              .status();
      EXPECT_TRUE(absl::IsDataLoss(status)) << status;
      EXPECT_NE(
          status.message().find(std::to_string(kOffset + 5u * index_bytes())),
          absl::string_view::npos)
          << status;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(NarrowAndWide, NeighborCacheTest, ::testing::Bool());

}  // namespace
}  // namespace hearth::sample
