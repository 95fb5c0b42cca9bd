#include "engine/sample/saved_io.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <utility>
#include <vector>

#include "engine/sample/addressable_sampler.h"
#include "engine/sample/epoch_profile.h"
#include "engine/sample/example_graph.h"
#include "engine/sample/mini_batch.h"
#include "engine/sample/neighbor_sampler.h"
#include "gtest/gtest.h"

namespace hearth::sample {
namespace {

using store::NodeId;

constexpr int64_t kNodes = 300;

bool IsCached(NodeId node) { return node % 4 == 0; }

class SavedIoTest : public ::testing::Test {
 protected:
  static SavedIo New(int64_t row_bytes = 512) {
    return SavedIo(
        {.num_nodes = kNodes, .index_bytes = 4, .row_bytes = row_bytes});
  }

  std::vector<MiniBatch> Batches(std::vector<int32_t> fanouts) const {
    const auto sampler = NewNeighborSampler(
        graph_.topology(), {.fanouts = std::move(fanouts), .data_seed = 4});
    std::vector<MiniBatch> batches;
    for (uint64_t batch = 0; batch < 6; ++batch) {
      std::vector<NodeId> seeds;
      for (NodeId node = static_cast<NodeId>(batch); node < kNodes;
           node += 31) {
        seeds.push_back(node);
      }
      batches.push_back(
          *sampler->Sample({.epoch_key = 0, .batch = batch}, seeds));
    }
    return batches;
  }

  const Graph graph_ = RandomGraph(kNodes);
};

// The number of edges in the tree below a destination of a block, which `walks`
// allows to be followed.
int64_t EdgesBelow(const MiniBatch& batch, size_t layer, int64_t row,
                   const std::function<bool(size_t, int64_t, int64_t)>& walks) {
  const Block& block = batch.blocks[layer];
  int64_t edges = 0;
  for (int64_t edge = block.indptr[row]; edge < block.indptr[row + 1]; ++edge) {
    if (!walks(layer, row, edge)) continue;
    ++edges;
    const int32_t source = block.indices[edge];
    if (layer > 0) edges += EdgesBelow(batch, layer - 1, source, walks);
  }
  return edges;
}

TEST_F(SavedIoTest, IsThatOfTheTrees) {
  for (const std::vector<int32_t>& fanouts :
       {std::vector<int32_t>{4, 3}, {5, 3, 2}, {3, 2, 2, 2}}) {
    SavedIo saved = New();
    std::vector<float> features(kNodes);
    std::vector<float> sampled(kNodes);
    std::vector<float> gathered(kNodes);
    for (const MiniBatch& batch : Batches(fanouts)) {
      saved.Add(batch, IsCached);
      for (const NodeId node : batch.input_nodes) ++features[node];
      const size_t top = batch.blocks.size() - 2;
      for (int64_t row = 0; row < batch.blocks[top].num_destinations; ++row) {
        const NodeId node = batch.input_nodes[row];
        sampled[node] += static_cast<float>(EdgesBelow(
            batch, top, row, [&](size_t, int64_t destination, int64_t) {
              return !IsCached(batch.input_nodes[destination]);
            }));
        gathered[node] += static_cast<float>(EdgesBelow(
            batch, top, row, [&](size_t layer, int64_t, int64_t edge) {
              const Block& block = batch.blocks[layer];
              return block.indices[edge] >= block.num_destinations &&
                     std::find(
                         block.indices.begin(), block.indices.begin() + edge,
                         block.indices[edge]) == block.indices.begin() + edge;
            }));
      }
    }
    const EpochProfile profile = std::move(saved).TakeProfile();
    EXPECT_EQ(profile.features, features);
    EXPECT_EQ(profile.sampled, sampled);
    EXPECT_EQ(profile.gathered, gathered);
  }
}

// With two layers, each input node that is no source of the last block came
// into its batch by one of these.
TEST_F(SavedIoTest, EachInputIsGatheredForOneNode) {
  SavedIo saved = New();
  float expected = 0;
  for (const MiniBatch& batch : Batches({5, 3})) {
    saved.Add(batch, IsCached);
    expected += static_cast<float>(std::ssize(batch.input_nodes) -
                                   batch.blocks.back().num_sources);
  }
  float total = 0;
  for (const float gathered : saved.profile().gathered) total += gathered;
  EXPECT_EQ(total, expected);
}

TEST_F(SavedIoTest, CountsSeedsRowsAndPages) {
  SavedIo saved = New(3 * 4096);
  SavedIo nothing_drawn = New();
  int64_t seeds = 0;
  int64_t rows = 0;
  int64_t drawn = 0;
  for (const MiniBatch& batch : Batches({5, 3})) {
    saved.Add(batch, IsCached);
    nothing_drawn.Add(batch, [](NodeId) { return true; });
    seeds += batch.num_seeds;
    rows += std::ssize(batch.input_nodes);
    for (const Block& block : batch.blocks) {
      for (int64_t row = 0; row < block.num_destinations; ++row) {
        if (IsCached(batch.input_nodes[row])) continue;
        drawn += block.indptr[row + 1] - block.indptr[row];
      }
    }
  }
  EXPECT_EQ(saved.profile().num_seeds, seeds);
  EXPECT_EQ(saved.profile().num_rows, rows);
  EXPECT_EQ(saved.profile().num_drawn, drawn);
  EXPECT_EQ(saved.profile().row_pages, 3);
  // Lists of this graph are of one page, of which several neighbors are drawn.
  EXPECT_GT(saved.profile().drawn_pages, drawn / 10);
  EXPECT_LT(saved.profile().drawn_pages, drawn);
  EXPECT_EQ(nothing_drawn.profile().num_drawn, 0);
  EXPECT_EQ(nothing_drawn.profile().drawn_pages, 0);
}

}  // namespace
}  // namespace hearth::sample
