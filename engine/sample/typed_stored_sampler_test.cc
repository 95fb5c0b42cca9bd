#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/io/atomic_file.h"
#include "engine/io/block_device.h"
#include "engine/io/file_system.h"
#include "engine/io/memory_device.h"
#include "engine/io/read_queues.h"
#include "engine/io/row_reader.h"
#include "engine/io/scratch_directory.h"
#include "engine/sample/example_graph.h"
#include "engine/sample/mini_batch.h"
#include "engine/sample/neighbor_cache.h"
#include "engine/sample/neighbor_lists.h"
#include "engine/sample/stored_sampler.h"
#include "engine/sample/typed_example.h"
#include "engine/sample/typed_sampler.h"
#include "engine/store/stored_topology.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::sample {
namespace {

using store::NodeId;

constexpr uint64_t kOffset = 64;

// The lists of some nodes: every third one.
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

// Each edge type in a file of its own, behind a header.
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
       .fanouts_of = {{}, {-1, 1}, {}, {0, 3}, {}}}};
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
