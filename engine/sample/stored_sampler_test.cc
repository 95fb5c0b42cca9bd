#include "engine/sample/stored_sampler.h"

#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/io/block_device.h"
#include "engine/io/file_system.h"
#include "engine/io/read_queue.h"
#include "engine/io/row_reader.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/io/whole_file.h"
#include "engine/sample/graph_fixture.h"
#include "engine/sample/mini_batch.h"
#include "engine/sample/neighbor_cache.h"
#include "engine/sample/neighbor_sampler.h"
#include "engine/store/graph.h"
#include "engine/store/topology.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::sample {

namespace {

using store::NodeId;

constexpr uint64_t kOffset = 64;

// A graph whose indices are read from a device in memory.
class Disk {
 public:
  Disk(const Graph& graph, bool wide)
      : queues_(*io::ReadQueues::Create({.kind = io::ReadQueueKind::kThreads})),
        queue_(*queues_->Take(8)) {
    std::string contents(kOffset, 'h');
    if (wide) {
      contents.append(reinterpret_cast<const char*>(graph.wide_indices.data()),
                      graph.wide_indices.size() * 8);
    } else {
      contents.append(reinterpret_cast<const char*>(graph.indices.data()),
                      graph.indices.size() * 4);
    }
    topology_ = store::StoredTopology::Single(graph.indptr,
                                              {.path = scratch_.Path("indices"),
                                               .offset = kOffset,
                                               .index_bytes = wide ? 8 : 4});
    // Building caches reads this file.
    EXPECT_TRUE(io::WriteFileAtomically(io::FileSystem::Posix(),
                                        topology_.files[0].path, contents)
                    .ok());
    topology_.indices = io::NewMemoryDevice(std::move(contents), 512);
    topology_.layout = {.first_offset = kOffset,
                        .row_bytes = wide ? 8u : 4u,
                        .num_rows = graph.indptr.back()};
    reader_ =
        *io::RowReader::Create(*topology_.indices, topology_.layout, *queue_,
                               {.staging_bytes = 64 << 10, .cost = {}});
  }

  NeighborCache BuildCache(uint64_t bytes) const {
    return *NeighborCache::Build(io::FileSystem::Posix(), topology_,
                                 {.budget_bytes = bytes}, {});
  }

  // Lists that batches hold in addition to the cache.
  BatchLists& batch_lists() { return batch_lists_; }

  std::unique_ptr<NeighborSampler> NewSampler(const NeighborCache& cache,
                                              std::vector<int32_t> fanouts,
                                              std::stop_token stop = {}) {
    return NewSampler(
        cache,
        NeighborSamplerOptions{.fanouts = std::move(fanouts), .data_seed = 11},
        std::move(stop));
  }

  std::unique_ptr<NeighborSampler> NewSampler(const NeighborCache& cache,
                                              NeighborSamplerOptions options,
                                              std::stop_token stop = {}) {
    return NewStoredNeighborSampler({.topology = topology_,
                                     .cache = cache,
                                     .batch_lists = batch_lists_,
                                     .reader = *reader_,
                                     .tally = tally_,
                                     .lists = lists_,
                                     .stop = std::move(stop)},
                                    std::move(options));
  }

  const io::ReadTally& tally() const { return tally_; }
  const ListTally& lists() const { return lists_; }

 private:
  const io::ScratchDirectory scratch_;
  const std::unique_ptr<io::ReadQueues> queues_;
  const io::ReadQueues::Handle queue_;
  store::StoredTopology topology_;
  std::unique_ptr<io::RowReader> reader_;
  BatchLists batch_lists_;
  io::ReadTally tally_;
  ListTally lists_;
};

// Lists of every third node; those with node % 3 == `first`.
class EveryThirdList final : public NeighborLists {
 public:
  EveryThirdList(const Graph& graph, NodeId first, bool wide)
      : graph_(graph), first_(first), wide_(wide) {}

  std::optional<NeighborList> Find(NodeId node) const override {
    if (node % 3 != first_) return std::nullopt;
    const int64_t start = graph_.indptr[node];
    return wide_ ? NeighborList(graph_.wide_indices.data() + start)
                 : NeighborList(graph_.indices.data() + start);
  }
  void Prefetch(NodeId /*node*/) const override {}

 private:
  const Graph& graph_;
  const NodeId first_;
  const bool wide_;
};

std::vector<NodeId> EveryFifth(int64_t end) {
  std::vector<NodeId> nodes;
  for (int64_t node = 0; node < end; node += 5) nodes.push_back(node);
  return nodes;
}

int64_t Sum(const ListTally& lists) {
  return lists.cached + lists.held + lists.stored;
}

struct Case {
  std::vector<int32_t> fanouts;
  uint64_t cache_bytes;
  bool wide;
  bool once = false;

  NeighborSamplerOptions options() const {
    return {.fanouts = fanouts, .data_seed = 11, .once = once};
  }
};

class StoredSamplerTest : public ::testing::TestWithParam<Case> {};

TEST_P(StoredSamplerTest, GivesTheBatchesOfTheTopologyInMemory) {
  const Graph graph = RandomGraph(1500);
  Disk disk(graph, GetParam().wide);
  const NeighborCache cache = disk.BuildCache(GetParam().cache_bytes);
  const auto stored = disk.NewSampler(cache, GetParam().options());
  const auto addressable =
      NewNeighborSampler(graph.topology(), GetParam().options());
  for (uint64_t batch = 0; batch < 4; ++batch) {
    const BatchKey key = {.epoch_key = 1, .batch = batch};
    const auto seeds = EveryFifth(1500 / static_cast<int64_t>(batch + 1));
    const auto sampled = stored->Sample(key, seeds);
    ASSERT_TRUE(sampled.ok()) << sampled.status();
    ExpectEqual(*addressable->Sample(key, seeds), *sampled);
    EXPECT_EQ(sampled->key.batch, batch);
    EXPECT_EQ(sampled->num_seeds, static_cast<int64_t>(seeds.size()));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, StoredSamplerTest,
    ::testing::Values(Case{{10, 5}, 0, false}, Case{{10, 5}, 30000, false},
                      Case{{10, 5}, 1 << 20, false},
                      Case{{3, 4, 5}, 30000, true}, Case{{-1, 4}, 30000, false},
                      Case{{4, -1}, 0, true}, Case{{100, 2}, 30000, false},
                      Case{{0}, 0, false}, Case{{}, 0, false},
                      Case{{10, 5}, 0, false, true},
                      Case{{3, 4, 5}, 30000, true, true},
                      Case{{-1, 4}, 30000, false, true},
                      Case{{4, 0, -1}, 1 << 20, true, true}));

TEST(StoredLayersTest, DrawsTheLayersOfTheTopologyInMemory) {
  const Graph graph = RandomGraph(1500);
  const NeighborSamplerOptions options = {
      .fanouts = {-1, -1}, .data_seed = 11, .layer_nodes = {40, 60}};
  for (const uint64_t cache_bytes : {0, 30000}) {
    Disk disk(graph, false);
    const NeighborCache cache = disk.BuildCache(cache_bytes);
    const auto stored = disk.NewSampler(cache, options);
    const auto addressable = NewNeighborSampler(graph.topology(), options);
    for (uint64_t batch = 0; batch < 4; ++batch) {
      const auto seeds = EveryFifth(300 * static_cast<int64_t>(batch + 1));
      const auto sampled = stored->Sample({.batch = batch}, seeds);
      ASSERT_TRUE(sampled.ok()) << sampled.status();
      ExpectEqual(*addressable->Sample({.batch = batch}, seeds), *sampled);
      const int64_t num_seeds = std::ssize(seeds);
      EXPECT_EQ(sampled->blocks[0].num_destinations,
                sampled->blocks[1].num_sources);
      EXPECT_LE(sampled->blocks[1].num_sources, num_seeds + 40);
      EXPECT_GT(sampled->blocks[1].num_sources, num_seeds);
      EXPECT_EQ(std::ssize(sampled->input_nodes),
                sampled->blocks[0].num_sources);
      EXPECT_EQ(sampled->in_degrees.size(), sampled->input_nodes.size());
    }
  }
}

TEST(StoredSamplerReadsTest, NothingThatIsCached) {
  const Graph graph = RandomGraph(1500);
  Disk disk(graph, false);
  const NeighborCache all = disk.BuildCache(1 << 20);
  ASSERT_TRUE(disk.NewSampler(all, std::vector<int32_t>{10, 5})
                  ->Sample({}, EveryFifth(900))
                  .ok());
  EXPECT_EQ(disk.tally().requests, 0);
  const NeighborCache some = disk.BuildCache(30000);
  const NeighborCache none;
  ASSERT_TRUE(disk.NewSampler(some, std::vector<int32_t>{10, 5})
                  ->Sample({}, EveryFifth(900))
                  .ok());
  const int64_t with_some = disk.tally().rows;
  ASSERT_TRUE(disk.NewSampler(none, std::vector<int32_t>{10, 5})
                  ->Sample({}, EveryFifth(900))
                  .ok());
  EXPECT_GT(with_some, 0);
  EXPECT_GT(disk.tally().rows - with_some, with_some);
}

TEST_P(StoredSamplerTest, DrawsFromTheListsThatABatchHolds) {
  const Graph graph = RandomGraph(1500);
  Disk disk(graph, GetParam().wide);
  const NeighborCache cache = disk.BuildCache(GetParam().cache_bytes);
  const auto stored = disk.NewSampler(cache, GetParam().options());
  const auto addressable =
      NewNeighborSampler(graph.topology(), GetParam().options());
  int64_t read = INT64_MAX;
  int64_t drawn_from = 0;
  for (int64_t held = 0; held <= 3; ++held) {
    const ListTally before = disk.lists();
    const int64_t rows_before = disk.tally().rows;
    const auto sampled = stored->Sample({.batch = 2}, EveryFifth(900));
    ASSERT_TRUE(sampled.ok()) << sampled.status();
    ExpectEqual(*addressable->Sample({.batch = 2}, EveryFifth(900)), *sampled);
    const int64_t lists = Sum(disk.lists()) - Sum(before);
    if (held == 0) drawn_from = lists;
    EXPECT_EQ(lists, drawn_from);
    const int64_t rows = disk.tally().rows - rows_before;
    EXPECT_EQ(rows == 0, disk.lists().stored == before.stored);
    EXPECT_LE(rows, read);
    read = rows;
    disk.batch_lists().push_back(
        std::make_shared<EveryThirdList>(graph, held % 3, GetParam().wide));
  }
  EXPECT_EQ(read, 0) << "every list was held";
}

TEST(StoredSamplerReadsTest, OfASubgraphEachListOnce) {
  const Graph graph = RandomGraph(1500);
  Disk disk(graph, false);
  const NeighborCache none;
  const NeighborSamplerOptions options = {.fanouts = {3, 4, 2}, .once = true};
  const MiniBatch batch =
      *disk.NewSampler(none, options)->Sample({}, EveryFifth(200));
  const Block& edges = batch.blocks[0];
  int64_t drawn_from = 0;
  for (int64_t row = 0; row < edges.num_destinations; ++row) {
    drawn_from += edges.indptr[row] < edges.indptr[row + 1] ? 1 : 0;
  }
  EXPECT_EQ(disk.lists().stored, drawn_from);
  EXPECT_EQ(disk.tally().rows, std::ssize(edges.indices));
}

TEST(StoredSamplerReadsTest, ListsAreCountedWhereTheyAreFoundFirst) {
  Graph graph;
  for (const int32_t source : {1, 2, 3, 0}) graph.AddRow({source});
  graph.AddRow({});
  Disk disk(graph, false);
  // Table and one list: node 0, since all ratios are equal.
  const NeighborCache one = disk.BuildCache(5 * 8 + 4);
  disk.batch_lists() = {std::make_shared<EveryThirdList>(graph, 0, false),
                        std::make_shared<EveryThirdList>(graph, 1, false)};
  ASSERT_TRUE(disk.NewSampler(one, std::vector<int32_t>{1})
                  ->Sample({}, {0, 1, 2, 3, 4})
                  .ok());
  EXPECT_EQ(disk.lists().cached, 1) << "node 0, which the batch holds, too";
  EXPECT_EQ(disk.lists().held, 2) << "nodes 1 and 3";
  EXPECT_EQ(disk.lists().stored, 1) << "node 2; node 4 has no neighbors";
}

TEST(StoredSamplerReadsTest, ADrawOfAHubReadsItsPagesAlone) {
  Graph graph;
  graph.AddRow(std::vector<int32_t>(100'000, 1));
  graph.AddRow({});
  Disk disk(graph, false);
  const NeighborCache none;
  ASSERT_TRUE(
      disk.NewSampler(none, std::vector<int32_t>{3})->Sample({}, {0}).ok());
  EXPECT_EQ(disk.tally().rows, 3);
  EXPECT_LT(disk.tally().bytes_read, 100'000);
}

TEST(StoredSamplerErrorsTest, ANeighborThatIsNoNodeIsDamage) {
  for (const int32_t bad : {2, -1}) {
    Graph graph;
    graph.AddRow({1, bad});
    graph.AddRow({});
    Disk disk(graph, false);
    const NeighborCache none;
    const absl::Status status = disk.NewSampler(none, std::vector<int32_t>{-1})
                                    ->Sample({}, {0})
                                    .status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_NE(status.message().find("byte 68"), absl::string_view::npos)
        << status;
  }
}

TEST(StoredSamplerErrorsTest, AStopEndsTheBatch) {
  const Graph graph = RandomGraph(300);
  Disk disk(graph, false);
  const NeighborCache none;
  std::stop_source stop;
  const auto sampler =
      disk.NewSampler(none, std::vector<int32_t>{5}, stop.get_token());
  EXPECT_TRUE(sampler->Sample({}, EveryFifth(100)).ok());
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(sampler->Sample({}, EveryFifth(100)).status()));
}

// Lists of every third node.
class EveryThirdNode final : public NeighborLists {
 public:
  explicit EveryThirdNode(const TypedExample& example) {
    for (NodeId node = 0; node < example.nodes.num_nodes(); ++node) {
      lists_.push_back(example.ListOf(node));
    }
  }
  std::optional<NeighborList> Find(NodeId node) const override {
    if (node % 3 != 1) return std::nullopt;
    return NeighborList(lists_[static_cast<size_t>(node)].data());
  }
  void Prefetch(NodeId /*node*/) const override {}

 private:
  std::vector<std::vector<NodeId>> lists_;
};

// Each edge type in its own file, behind a header.
class TypedStoredSamplerTest : public ::testing::Test {
 protected:
  TypedStoredSamplerTest()
      : queues_(*io::ReadQueues::Create({.kind = io::ReadQueueKind::kThreads})),
        queue_(*queues_->Take(8)) {
    Store();
  }

  void Store() {
    reader_.reset();
    topology_ = store::StoredTopology();
    topology_.nodes = example_.nodes;
    topology_.relations = example_.Relations();
    std::vector<std::unique_ptr<io::BlockDevice>> devices;
    for (size_t type = 0; type < topology_.relations.size(); ++type) {
      const Graph& graph = example_.edges[type].graph;
      const bool wide = TypedExample::IsWide(type);
      std::string contents(kOffset, 'h');
      if (wide) {
        contents.append(
            reinterpret_cast<const char*>(graph.wide_indices.data()),
            graph.wide_indices.size() * 8);
      } else {
        contents.append(reinterpret_cast<const char*>(graph.indices.data()),
                        graph.indices.size() * 4);
      }
      topology_.relations[type].topology.indices = {};
      topology_.files.push_back({.path = scratch_.Path(absl::StrCat("e", type)),
                                 .offset = kOffset,
                                 .index_bytes = wide ? 8 : 4});
      EXPECT_TRUE(io::WriteFileAtomically(io::FileSystem::Posix(),
                                          topology_.files.back().path, contents)
                      .ok());
      devices.push_back(io::NewMemoryDevice(std::move(contents), 512));
    }
    store::JoinIndices(std::move(devices), topology_);
    reader_ =
        *io::RowReader::Create(*topology_.indices, topology_.layout, *queue_,
                               {.staging_bytes = 64 << 10, .cost = {}});
  }

  NeighborCache BuildCache(uint64_t bytes) const {
    return *NeighborCache::Build(io::FileSystem::Posix(), topology_,
                                 {.budget_bytes = bytes}, {});
  }

  std::unique_ptr<NeighborSampler> NewSampler(
      const NeighborCache& cache, const NeighborSamplerOptions& options) {
    return NewStoredNeighborSampler({.topology = topology_,
                                     .cache = cache,
                                     .batch_lists = batch_lists_,
                                     .reader = *reader_,
                                     .tally = tally_,
                                     .lists = lists_,
                                     .stop = {}},
                                    options);
  }

  static void ExpectSame(const MiniBatch& expected, const MiniBatch& actual) {
    ExpectEqual(expected, actual);
    EXPECT_EQ(expected.node_types, actual.node_types);
    for (size_t i = 0; i < expected.blocks.size(); ++i) {
      EXPECT_EQ(expected.blocks[i].edge_types, actual.blocks[i].edge_types);
    }
  }

  static std::vector<NodeId> Seeds() {
    std::vector<NodeId> seeds(120);
    std::iota(seeds.begin(), seeds.end(), 0);
    return seeds;
  }

  TypedExample example_;
  const io::ScratchDirectory scratch_;
  const std::unique_ptr<io::ReadQueues> queues_;
  const io::ReadQueues::Handle queue_;
  store::StoredTopology topology_;
  std::unique_ptr<io::RowReader> reader_;
  BatchLists batch_lists_;
  io::ReadTally tally_;
  ListTally lists_;
};

TEST_F(TypedStoredSamplerTest, GivesTheBatchesOfTheTopologyInMemory) {
  const std::vector<store::Relation> relations = example_.Relations();
  const std::vector<NeighborSamplerOptions> all_options = {
      {.fanouts = {4, 2, 3}, .data_seed = 4},
      {.fanouts = {-1, 2}, .data_seed = 4},
      {.fanouts = {4, 2},
       .data_seed = 4,
       .fanouts_of = {{}, {-1, 1}, {}, {0, 3}, {}}},
      {.fanouts = {4, 2, 3}, .data_seed = 4, .once = true},
      {.fanouts = {4, 2},
       .data_seed = 4,
       .fanouts_of = {{}, {-1, 1}, {}, {0, 3}, {}},
       .once = true}};
  for (const NeighborSamplerOptions& options : all_options) {
    const MiniBatch expected =
        *NewTypedSampler(relations, example_.nodes, options)
             ->Sample({.epoch_key = 2, .batch = 7}, Seeds());
    for (const uint64_t cache_bytes : {0, 12'000, 1 << 20}) {
      const NeighborCache cache = BuildCache(cache_bytes);
      for (const bool held : {false, true}) {
        batch_lists_.clear();
        if (held) {
          batch_lists_.push_back(std::make_shared<EveryThirdNode>(example_));
        }
        lists_ = {};
        const auto sampled =
            NewSampler(cache, options)
                ->Sample({.epoch_key = 2, .batch = 7}, Seeds());
        ASSERT_TRUE(sampled.ok()) << sampled.status();
        ExpectSame(expected, *sampled);
        EXPECT_EQ(lists_.cached > 0, cache_bytes > 0);
        EXPECT_EQ(lists_.held > 0, held && cache_bytes < 1 << 20);
        EXPECT_EQ(lists_.stored > 0, cache_bytes < 1 << 20);
      }
    }
  }
}

TEST_F(TypedStoredSamplerTest, TwoStepsGiveTheSameBatch) {
  const NeighborSamplerOptions options = {.fanouts = {4, 2, 3}, .data_seed = 4};
  const NeighborCache cache = BuildCache(12'000);
  const auto sampler = NewSampler(cache, options);
  const MiniBatch expected = *sampler->Sample({.batch = 1}, Seeds());
  MiniBatch batch = *sampler->SampleTop({.batch = 1}, Seeds());
  batch.top->computed.resize(batch.top->nodes.size());
  std::iota(batch.top->computed.begin(), batch.top->computed.end(), 0);
  ASSERT_TRUE(sampler->SampleRest(batch).ok());
  ExpectSame(expected, batch);
}

TEST_F(TypedStoredSamplerTest, TheCacheHoldsWholeListsOfAllEdgeTypes) {
  for (const uint64_t bytes : {9'000, 1 << 20}) {
    const NeighborCache cache = BuildCache(bytes);
    int64_t lists = 0;
    int64_t neighbors = 0;
    for (NodeId node = 0; node < example_.nodes.num_nodes(); ++node) {
      const int64_t place = cache.Find(node);
      if (place == NeighborCache::kAbsent) continue;
      const std::vector<NodeId> list = example_.ListOf(node);
      for (size_t i = 0; i < list.size(); ++i) {
        EXPECT_EQ(cache.At(place + static_cast<int64_t>(i)), list[i]);
      }
      ++lists;
      neighbors += std::ssize(list);
    }
    EXPECT_GT(lists, 0);
    EXPECT_EQ(lists, cache.num_lists());
    EXPECT_EQ(neighbors, cache.num_neighbors());
    EXPECT_LE(cache.memory_bytes(), bytes + 4096);
  }
}

TEST_F(TypedStoredSamplerTest, AWrongNeighborIsNamedByItsFile) {
  for (const int32_t wrong : {-1, 20}) {
    std::vector<int64_t>& indices = example_.edges[3].graph.wide_indices;
    const int64_t right = std::exchange(indices[5], wrong);
    Store();
    const NeighborCache none;
    absl::Status status =
        NewSampler(none, {.fanouts = {-1}})->Sample({}, Seeds()).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                ::testing::HasSubstr(absl::StrCat(
                    topology_.files[3].path, ": the neighbor at byte ",
                    kOffset + 5 * 8, " is not one of 20 nodes")));
    status = NeighborCache::Build(io::FileSystem::Posix(), topology_,
                                  {.budget_bytes = 1 << 20}, {})
                 .status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                ::testing::HasSubstr(topology_.files[3].path));
    indices[5] = right;
  }
}

}  // namespace

}  // namespace hearth::sample
