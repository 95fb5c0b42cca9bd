// Runs the GPU kernels of sampling on the CPU, step by step. That whole batches
// are those of the CPU's sampler is tested in engine/sample.

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/hearth_cuda.h"
#include "kernels/cuda/sample.cu"

namespace hearth::kernels {
namespace {

// Numbers of the processor's generator, of the coordinates seed 11, purpose 2,
// 3, 14 and (2 << 48 | 77).
constexpr uint32_t kKey[2] = {782983767u, 966613899u};
constexpr uint64_t kPrefix = 0x3641daf22239282u;
constexpr uint64_t kLast = uint64_t{2} << 48 | 77;

TEST(RandomWordsTest, AreTheProcessors) {
  RandomWords random(kKey, Mix(kPrefix ^ kLast));
  for (const uint32_t word : {2839245040u, 384569538u, 3291855711u, 3075580962u,
                              3887944442u, 2593526701u}) {
    EXPECT_EQ(random.Next(), word);
  }
}

TEST(RandomWordsTest, BelowAnyBound) {
  struct Drawn {
    uint64_t bound;
    uint64_t number;
  };
  RandomWords random(kKey, Mix(kPrefix ^ kLast));
  for (const Drawn& drawn :
       {Drawn{1u, 0u}, Drawn{10u, 0u}, Drawn{3000000000u, 2148268484u},
        Drawn{4294967295u, 3887944441u}, Drawn{4294967296u, 1958513857u},
        Drawn{6917529027641081856u, 887717957538346860u},
        Drawn{17293822569102704641u, 9374677254207521525u}}) {
    EXPECT_EQ(random.Below(drawn.bound), drawn.number) << drawn.bound;
  }
}

TEST(ScanTest, AddsUpWhatComesBefore) {
  for (const int64_t count :
       {1, 31, 32, 33, 63, 64, 65, 4095, 4096, 4097, 270000}) {
    std::vector<int64_t> values(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) values[i] = i * 7 % 13;
    std::vector<int64_t> expected(values.size());
    std::exclusive_scan(values.begin(), values.end(), expected.begin(),
                        int64_t{0});
    constexpr int64_t kUntouched = -5;
    const int64_t room = HEARTH_CUDA_SCAN_SCRATCH(count);
    std::vector<int64_t> scratch(static_cast<size_t>(room) + 1, kUntouched);
    EXPECT_EQ(LaunchScan(values.data(), count, scratch.data(), nullptr),
              cudaSuccess);
    EXPECT_EQ(values, expected) << count;
    EXPECT_EQ(scratch.back(), kUntouched);
  }
}

// A layer of a small graph, and all its memory.
class SampleKernelsTest : public ::testing::Test {
 protected:
  // Node n has the neighbors n + 1, n + 2, ..., one for each of its degrees,
  // modulo the number of nodes.
  void MakeGraph(const std::vector<int64_t>& degrees) {
    indptr_ = {0};
    neighbors_.clear();
    const auto num_nodes = static_cast<int64_t>(degrees.size());
    for (int64_t node = 0; node < num_nodes; ++node) {
      for (int64_t i = 0; i < degrees[node]; ++i) {
        neighbors_.push_back(static_cast<int32_t>((node + 1 + i) % num_nodes));
      }
      indptr_.push_back(static_cast<int64_t>(neighbors_.size()));
    }
  }

  // A graph of one type.
  HearthCudaGraph Graph(int32_t fanout) {
    const auto num_nodes = static_cast<int64_t>(indptr_.size()) - 1;
    relation_ = {.indptr = indptr_.data(),
                 .indices = neighbors_.data(),
                 .num_edges = static_cast<int64_t>(neighbors_.size()),
                 .first_destination = 0,
                 .first_source = 0,
                 .num_sources = num_nodes,
                 .prefix = kPrefix,
                 .fanout = fanout,
                 .index_bytes = sizeof(int32_t)};
    type_firsts_ = {0, num_nodes};
    return {.relations = &relation_,
            .type_firsts = type_firsts_.data(),
            .lists = &list_,
            .num_nodes = num_nodes,
            .num_relations = 1,
            .num_types = 1,
            .lists_per_node = 1};
  }

  // Samples for the first `count` nodes, with a table of so many slots.
  void Sample(int64_t count, int32_t fanout, int64_t slots) {
    const HearthCudaGraph graph = Graph(fanout);
    nodes_.resize(static_cast<size_t>(graph.num_nodes));
    std::iota(nodes_.begin(), nodes_.begin() + count, int64_t{0});
    table_nodes_.resize(static_cast<size_t>(slots));
    positions_.resize(table_nodes_.size());
    const HearthCudaNodeTable table = {table_nodes_.data(), positions_.data(),
                                       slots};
    ASSERT_EQ(LaunchFillTable({table, nodes_.data(), count, &damage_}, nullptr),
              cudaSuccess);
    starts_.resize(static_cast<size_t>(count));
    degrees_.resize(starts_.size());
    ASSERT_EQ(LaunchLookUp({graph, nodes_.data(), 0, count, starts_.data(),
                            degrees_.data(), nullptr, &damage_},
                           nullptr),
              cudaSuccess);
    block_indptr_.resize(starts_.size() + 1);
    scratch_.resize(static_cast<size_t>(HEARTH_CUDA_SCAN_SCRATCH(count + 1)));
    ASSERT_EQ(LaunchCountEdges({graph, nodes_.data(), degrees_.data(), count,
                                block_indptr_.data(), nullptr, scratch_.data()},
                               nullptr),
              cudaSuccess);
    const int64_t num_edges = block_indptr_.back();
    indices_.resize(static_cast<size_t>(num_edges));
    sources_.resize(indices_.size());
    ranks_.resize(static_cast<size_t>(num_edges + 1 +
                                      HEARTH_CUDA_SCAN_SCRATCH(num_edges + 1)));
    ASSERT_EQ(LaunchSampleLayer({.graph = graph,
                                 .starts = starts_.data(),
                                 .degrees = degrees_.data(),
                                 .num_destinations = count,
                                 .key = {kKey[0], kKey[1]},
                                 .layer = 2,
                                 .indptr = block_indptr_.data(),
                                 .num_edges = num_edges,
                                 .table = table,
                                 .nodes = nodes_.data(),
                                 .indices = indices_.data(),
                                 .sources = sources_.data(),
                                 .edge_relations = nullptr,
                                 .ranks = ranks_.data(),
                                 .damage = &damage_},
                                nullptr),
              cudaSuccess);
    num_nodes_ = count + ranks_[static_cast<size_t>(num_edges)];
  }

  std::vector<int64_t> indptr_;
  std::vector<int32_t> neighbors_;
  HearthCudaRelation relation_ = {};
  std::vector<int64_t> type_firsts_;
  int32_t list_ = 0;
  std::vector<int64_t> nodes_;
  std::vector<unsigned long long> table_nodes_;
  std::vector<uint32_t> positions_;
  std::vector<int64_t> starts_;
  std::vector<int64_t> degrees_;
  std::vector<int64_t> block_indptr_;
  std::vector<int64_t> scratch_;
  std::vector<int32_t> indices_;
  std::vector<int64_t> sources_;
  std::vector<uint32_t> ranks_;
  HearthCudaDamage damage_ = {};
  int64_t num_nodes_ = 0;
};

TEST_F(SampleKernelsTest, NumbersSourcesInTheOrderOfTheirEdges) {
  MakeGraph({2, 0, 3, 0, 1, 0});
  Sample(3, -1, 16);
  EXPECT_EQ(block_indptr_, (std::vector<int64_t>{0, 2, 2, 5}));
  EXPECT_EQ(sources_, (std::vector<int64_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(indices_, (std::vector<int32_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(num_nodes_, 6);
  EXPECT_EQ(nodes_, (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(damage_.list, kNone);
  EXPECT_EQ(damage_.edge, kNone);
}

// Rows of all lengths around a warp, and a table that gets as full as it can.
TEST_F(SampleKernelsTest, ATableMayBeNearlyFull) {
  for (const int64_t num_nodes : {31, 63, 127, 1023}) {
    std::vector<int64_t> degrees(static_cast<size_t>(num_nodes));
    for (int64_t i = 0; i < num_nodes; ++i) degrees[i] = i % 35;
    MakeGraph(degrees);
    Sample(num_nodes, -1, num_nodes + 1);
    EXPECT_EQ(num_nodes_, num_nodes);
    EXPECT_EQ(std::vector<int64_t>(indices_.begin(), indices_.end()), sources_);
    Sample(30, 7, num_nodes + 1);
    for (size_t edge = 0; edge < indices_.size(); ++edge) {
      EXPECT_EQ(nodes_[indices_[edge]], sources_[edge]);
    }
  }
}

TEST_F(SampleKernelsTest, DrawsAsManyAsTheFanoutOfLargerRows) {
  MakeGraph({90, 5, 6, 0, 100, 3, 2, 50});
  Sample(8, 5, 16);
  EXPECT_EQ(block_indptr_,
            (std::vector<int64_t>{0, 5, 10, 15, 15, 20, 23, 25, 30}));
}

TEST_F(SampleKernelsTest, TheFirstDamageIsWrittenDown) {
  MakeGraph({3, 3, 3, 3});
  neighbors_[4] = -1;
  neighbors_[7] = 4;
  Sample(4, -1, 16);
  EXPECT_EQ(damage_.edge, 4u);
  EXPECT_EQ(sources_[4], -1);
  EXPECT_EQ(damage_.list, kNone);
  MakeGraph({3, 3, 3, 3});
  indptr_[2] = 1;
  Sample(4, -1, 16);
  EXPECT_EQ(damage_.list, 1u);
  EXPECT_EQ(degrees_[1], 0);
}

TEST_F(SampleKernelsTest, NonsenseIsRefused) {
  HearthCudaFillTable fill = {};
  fill.table.slots = 3;
  EXPECT_EQ(LaunchFillTable(fill, nullptr), cudaErrorInvalidValue);
  fill.table.slots = 4;
  fill.count = 4;
  EXPECT_EQ(LaunchFillTable(fill, nullptr), cudaErrorInvalidValue);
  fill.count = -1;
  EXPECT_EQ(LaunchFillTable(fill, nullptr), cudaErrorInvalidValue);
  HearthCudaLookUp look_up = {};
  look_up.graph.num_types = 1;
  EXPECT_EQ(LaunchLookUp(look_up, nullptr), cudaErrorInvalidValue);
  look_up.graph.lists_per_node = 1;
  look_up.first = 1;
  EXPECT_EQ(LaunchLookUp(look_up, nullptr), cudaErrorInvalidValue);
  HearthCudaCountEdges count = {};
  EXPECT_EQ(LaunchCountEdges(count, nullptr), cudaErrorInvalidValue);
  count.graph = look_up.graph;
  count.count = -1;
  EXPECT_EQ(LaunchCountEdges(count, nullptr), cudaErrorInvalidValue);
  HearthCudaSampleLayer layer = {};
  layer.graph = look_up.graph;
  layer.table.slots = 4;
  layer.num_edges = int64_t{1} << 32;
  EXPECT_EQ(LaunchSampleLayer(layer, nullptr), cudaErrorInvalidValue);
  layer.num_edges = -1;
  EXPECT_EQ(LaunchSampleLayer(layer, nullptr), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace hearth::kernels
