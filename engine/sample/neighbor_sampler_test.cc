#include "engine/sample/neighbor_sampler.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "engine/base/random.h"
#include "engine/base/sha256.h"
#include "engine/sample/addressable_sampler.h"
#include "engine/sample/example_graph.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/topology.h"
#include "gtest/gtest.h"

namespace hearth::sample {
namespace {

using store::NodeId;

// Row 0 has the sources 1 .. degree; all others are isolated.
Graph Star(int32_t degree) {
  Graph graph;
  std::vector<int32_t> sources(degree);
  for (int32_t i = 0; i < degree; ++i) sources[i] = i + 1;
  graph.AddRow(sources);
  for (int32_t i = 0; i < degree; ++i) graph.AddRow({});
  return graph;
}

std::vector<NodeId> EveryThird(int64_t begin, int64_t end) {
  std::vector<NodeId> nodes;
  for (int64_t node = begin; node < end; node += 3) nodes.push_back(node);
  return nodes;
}

std::string Digest(const MiniBatch& batch) {
  Sha256 digest;
  const auto add = [&](const auto& values) {
    digest.Update(absl::Span<const std::byte>(
        reinterpret_cast<const std::byte*>(values.data()),
        values.size() * sizeof(values[0])));
  };
  add(batch.input_nodes);
  add(batch.in_degrees);
  for (const Block& block : batch.blocks) {
    add(block.indptr);
    add(block.indices);
  }
  return digest.HexDigest();
}

MiniBatch SampleOnce(const store::Topology& topology,
                     std::vector<int32_t> fanouts, const BatchKey& key,
                     const std::vector<NodeId>& seeds) {
  return *NewNeighborSampler(topology,
                             {.fanouts = std::move(fanouts), .data_seed = 11})
              ->Sample(key, seeds);
}

// The promise of Sample in the plainest code: draws of Floyd's algorithm, a
// hash map for the positions.
MiniBatch ReferenceSample(const Graph& graph,
                          const std::vector<int32_t>& fanouts,
                          const BatchKey& key,
                          const std::vector<NodeId>& seeds) {
  MiniBatch batch;
  batch.input_nodes = seeds;
  std::unordered_map<NodeId, int32_t> positions;
  for (const NodeId seed : seeds) positions.emplace(seed, positions.size());
  for (size_t layer = 0; layer < fanouts.size(); ++layer) {
    Block block;
    block.num_destinations = static_cast<int64_t>(batch.input_nodes.size());
    block.indptr = {0};
    for (int64_t row = 0; row < block.num_destinations; ++row) {
      const NodeId node = batch.input_nodes[row];
      const int64_t degree = graph.indptr[node + 1] - graph.indptr[node];
      const int64_t kept = fanouts[layer] < 0
                               ? degree
                               : std::min<int64_t>(degree, fanouts[layer]);
      RandomStream random(11, RandomPurpose::kNeighborSampling, key.epoch_key,
                          key.batch, layer << 48 | node);
      std::set<int64_t> chosen;
      for (int64_t last = degree - kept; last < degree; ++last) {
        const int64_t drawn =
            kept == degree ? last
                           : static_cast<int64_t>(random.Below(last + 1));
        chosen.insert(chosen.count(drawn) > 0 ? last : drawn);
      }
      for (const int64_t i : chosen) {
        const NodeId source = graph.indices[graph.indptr[node] + i];
        const auto [it, added] = positions.emplace(source, positions.size());
        if (added) batch.input_nodes.push_back(source);
        block.indices.push_back(it->second);
      }
      block.indptr.push_back(static_cast<int64_t>(block.indices.size()));
    }
    block.num_sources = static_cast<int64_t>(batch.input_nodes.size());
    batch.blocks.insert(batch.blocks.begin(), block);
  }
  for (const NodeId node : batch.input_nodes) {
    batch.in_degrees.push_back(graph.indptr[node + 1] - graph.indptr[node]);
  }
  return batch;
}

// Arrays that were damaged behind the sampler's back.
TEST(NeighborSamplerDamageTest, ATopologyThatLeadsOutOfItselfIsDataLoss) {
  const Graph graph = RandomGraph(200);
  const auto sample = [](const Graph& damaged) {
    return NewNeighborSampler(damaged.topology(),
                              {.fanouts = {-1, -1}, .data_seed = 11})
        ->Sample({}, EveryThird(0, 200))
        .status();
  };
  ASSERT_TRUE(sample(graph).ok());
  for (const int32_t wrong : {200, -1, INT32_MAX, INT32_MIN}) {
    for (const size_t edge : {size_t{0}, graph.indices.size() - 1}) {
      Graph damaged = graph;
      damaged.indices[edge] = wrong;
      const absl::Status status = sample(damaged);
      EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    }
  }
  for (const int64_t wrong :
       {int64_t{-1}, INT64_MAX, INT64_MIN, graph.indptr.back() + 1}) {
    for (const size_t node : {size_t{3}, size_t{99}}) {
      Graph damaged = graph;
      damaged.indptr[node] = wrong;
      const absl::Status status = sample(damaged);
      EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    }
  }
}

class NeighborSamplerFanoutsTest
    : public ::testing::TestWithParam<std::vector<int32_t>> {
 protected:
  static constexpr int64_t kNodes = 1500;
  const Graph graph_ = RandomGraph(kNodes);
};

TEST_P(NeighborSamplerFanoutsTest, IsTheReference) {
  const auto sampler = NewNeighborSampler(
      graph_.topology(), {.fanouts = GetParam(), .data_seed = 11});
  // One sampler for batches of different sizes: nothing is left over.
  for (const uint64_t batch : {0, 1, 2, 3}) {
    const auto begin = static_cast<int64_t>(batch * 100);
    const std::vector<NodeId> seeds =
        EveryThird(begin, begin + 1000 / static_cast<int64_t>(1 + batch));
    const BatchKey key{.epoch_key = 2, .batch = batch};
    const MiniBatch sampled = *sampler->Sample(key, seeds);
    EXPECT_EQ(sampled.key.epoch_key, 2u);
    EXPECT_EQ(sampled.key.batch, batch);
    EXPECT_EQ(sampled.num_seeds, static_cast<int64_t>(seeds.size()));
    ExpectEqual(ReferenceSample(graph_, GetParam(), key, seeds), sampled);
  }
}

TEST_P(NeighborSamplerFanoutsTest, WideIndicesGiveTheSameBatch) {
  const std::vector<NodeId> seeds = EveryThird(0, 300);
  ExpectEqual(SampleOnce(graph_.topology(), GetParam(), {}, seeds),
              SampleOnce(graph_.wide_topology(), GetParam(), {}, seeds));
}

TEST_P(NeighborSamplerFanoutsTest, BlocksAreChainedPrefixes) {
  const std::vector<NodeId> seeds = EveryThird(10, 300);
  const MiniBatch batch = SampleOnce(graph_.topology(), GetParam(), {}, seeds);
  ASSERT_EQ(batch.blocks.size(), GetParam().size());
  EXPECT_TRUE(
      std::equal(seeds.begin(), seeds.end(), batch.input_nodes.begin()));
  const std::set<NodeId> distinct(batch.input_nodes.begin(),
                                  batch.input_nodes.end());
  EXPECT_EQ(distinct.size(), batch.input_nodes.size());
  auto sources = static_cast<int64_t>(batch.input_nodes.size());
  for (const Block& block : batch.blocks) {
    EXPECT_EQ(block.num_sources, sources);
    EXPECT_EQ(block.indptr.size(), block.num_destinations + 1u);
    EXPECT_EQ(block.indices.size(), static_cast<size_t>(block.indptr.back()));
    sources = block.num_destinations;
  }
  EXPECT_EQ(sources, batch.num_seeds);
}

TEST_P(NeighborSamplerFanoutsTest, EdgesAreDistinctEdgesOfTheTopologyInOrder) {
  const MiniBatch batch =
      SampleOnce(graph_.topology(), GetParam(), {}, EveryThird(0, 600));
  for (size_t i = 0; i < batch.blocks.size(); ++i) {
    const Block& block = batch.blocks[i];
    const int32_t fanout = GetParam()[GetParam().size() - 1 - i];
    for (int64_t row = 0; row < block.num_destinations; ++row) {
      const NodeId node = batch.input_nodes[row];
      const int64_t count = block.indptr[row + 1] - block.indptr[row];
      const int64_t degree = batch.in_degrees[row];
      EXPECT_EQ(count, fanout < 0 ? degree : std::min<int64_t>(fanout, degree));
      // Each sampled edge uses up one edge of the row, in the row's order.
      int64_t at = graph_.indptr[node];
      for (int64_t e = block.indptr[row]; e < block.indptr[row + 1]; ++e) {
        const NodeId source = batch.input_nodes[block.indices[e]];
        while (at < graph_.indptr[node + 1] && graph_.indices[at] != source) {
          ++at;
        }
        ASSERT_LT(at++, graph_.indptr[node + 1]) << "no such edge left";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Fanouts, NeighborSamplerFanoutsTest,
    ::testing::Values(std::vector<int32_t>{}, std::vector<int32_t>{5},
                      std::vector<int32_t>{10, 3}, std::vector<int32_t>{3, 10},
                      std::vector<int32_t>{2, 3, 4},
                      std::vector<int32_t>{-1, 4}, std::vector<int32_t>{4, -1},
                      std::vector<int32_t>{0}, std::vector<int32_t>{100, 2}));

TEST(NeighborSamplerTest, WhichThreadSamplesChangesNothing) {
  constexpr int kThreads = 4;
  constexpr int kBatches = 24;
  const Graph graph = RandomGraph(2000);
  const store::Topology topology = graph.topology();
  const auto sample = [&](NeighborSampler& sampler, int batch) {
    return Digest(*sampler.Sample({.epoch_key = 1, .batch = uint64_t(batch)},
                                  EveryThird(batch * 50, batch * 50 + 300)));
  };
  const NeighborSamplerOptions options{.fanouts = {10, 5}, .data_seed = 3};
  std::vector<std::string> serial;
  const auto sampler = NewNeighborSampler(topology, options);
  for (int batch = 0; batch < kBatches; ++batch) {
    serial.push_back(sample(*sampler, batch));
  }
  std::vector<std::string> parallel(kBatches);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      const auto own = NewNeighborSampler(topology, options);
      // Backwards, too, so that no batch follows the one it did above.
      for (int batch = kBatches - 1 - thread; batch >= 0; batch -= kThreads) {
        parallel[batch] = sample(*own, batch);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(serial, parallel);
}

TEST(NeighborSamplerTest, EveryPartOfTheKeyCounts) {
  const Graph graph = RandomGraph(1000);
  const store::Topology topology = graph.topology();
  const std::vector<NodeId> seeds = EveryThird(0, 300);
  const auto sample = [&](uint64_t data_seed, const BatchKey& key) {
    return Digest(
        *NewNeighborSampler(topology, {.fanouts = {5}, .data_seed = data_seed})
             ->Sample(key, seeds));
  };
  const std::set<std::string> digests = {
      sample(1, {.epoch_key = 0, .batch = 0}),
      sample(2, {.epoch_key = 0, .batch = 0}),
      sample(1, {.epoch_key = 1, .batch = 0}),
      sample(1, {.epoch_key = 0, .batch = 1})};
  EXPECT_EQ(digests.size(), 4u);
}

TEST(NeighborSamplerTest, LayersDrawAnew) {
  const Graph graph = Star(100);
  const MiniBatch batch = SampleOnce(graph.topology(), {10, 10}, {}, {0});
  ASSERT_EQ(batch.blocks[0].indptr[1], 10);
  ASSERT_EQ(batch.blocks[1].indptr[1], 10);
  EXPECT_NE(batch.blocks[0].indices, batch.blocks[1].indices);
}

TEST(NeighborSamplerTest, EveryNeighborIsDrawnEquallyOften) {
  constexpr int kDegree = 20;
  constexpr int kFanout = 5;
  constexpr int kBatches = 4000;
  const Graph graph = Star(kDegree);
  const store::Topology topology = graph.topology();
  const auto sampler =
      NewNeighborSampler(topology, {.fanouts = {kFanout}, .data_seed = 1});
  std::vector<double> counts(kDegree + 1);
  for (uint64_t batch = 0; batch < kBatches; ++batch) {
    const NodeId seed = 0;
    const MiniBatch sampled =
        *sampler->Sample({.epoch_key = 0, .batch = batch}, {&seed, 1});
    for (const NodeId node : sampled.input_nodes) {
      ++counts[node];
    }
  }
  EXPECT_EQ(counts[0], kBatches) << "the seed itself";
  constexpr double kExpected = double{kBatches} * kFanout / kDegree;
  double sum = 0;
  for (int node = 1; node <= kDegree; ++node) {
    sum += (counts[node] - kExpected) * (counts[node] - kExpected);
  }
  // The counts of a sample without replacement: each has the variance of a
  // Bernoulli variable, and they are negatively correlated.
  const double chi_square = sum / kExpected / (1 - double{kFanout} / kDegree) *
                            (kDegree - 1) / kDegree;
  EXPECT_LT(chi_square, 43.8);  // 19 degrees of freedom, p = 0.001.
  EXPECT_GT(chi_square, 4.9);   // p = 0.9995: suspiciously even.
}

TEST(NeighborSamplerTest, IsolatedSeedsHaveNoEdges) {
  const Graph graph = Star(3);
  const MiniBatch batch = SampleOnce(graph.topology(), {2, -1}, {}, {2, 3});
  EXPECT_EQ(batch.input_nodes, (std::vector<NodeId>{2, 3}));
  EXPECT_EQ(batch.in_degrees, (std::vector<int64_t>{0, 0}));
  for (const Block& block : batch.blocks) {
    EXPECT_EQ(block.indptr, (std::vector<int64_t>{0, 0, 0}));
    EXPECT_TRUE(block.indices.empty());
  }
}

TEST(NeighborSamplerTest, SelfLoopsAndRepeatedEdgesAreEdges) {
  Graph graph;
  graph.AddRow({1, 0, 1});
  graph.AddRow({});
  const MiniBatch batch = SampleOnce(graph.topology(), {-1}, {}, {0});
  EXPECT_EQ(batch.input_nodes, (std::vector<NodeId>{0, 1}));
  EXPECT_EQ(batch.blocks[0].indices, (std::vector<int32_t>{1, 0, 1}));
}

TEST(NeighborSamplerTest, OfNoSeeds) {
  const Graph graph = Star(3);
  const MiniBatch batch = SampleOnce(graph.topology(), {2}, {}, {});
  EXPECT_EQ(batch.num_seeds, 0);
  EXPECT_TRUE(batch.input_nodes.empty());
  EXPECT_EQ(batch.blocks[0].indptr, (std::vector<int64_t>{0}));
}

// Prepared plans and the digests of jobs depend on every bit of a batch: who
// changes it must raise the version of the formats that hold batches.
TEST(NeighborSamplerTest, NeverChanges) {
  const Graph graph = RandomGraph(1500);
  EXPECT_EQ(
      Digest(SampleOnce(graph.topology(), {10, 5, 5},
                        {.epoch_key = 3, .batch = 14}, EveryThird(100, 400))),
      "5881cdbead611916b61689ce4e2a2d51de272a8654916afad6143f726be4a17f");
}

}  // namespace
}  // namespace hearth::sample
