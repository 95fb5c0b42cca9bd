#include "engine/sample/neighbor_sampler.h"

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/base/random.h"
#include "engine/base/sha256.h"
#include "engine/sample/graph_fixture.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/topology.h"
#include "gmock/gmock.h"
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

// What `node` draws in a layer, in the plainest code: Floyd's draws.
std::vector<NodeId> ReferenceDraw(const Graph& graph, size_t layer, NodeId node,
                                  int32_t fanout, const BatchKey& key) {
  const int64_t degree = graph.indptr[node + 1] - graph.indptr[node];
  const int64_t kept = fanout < 0 ? degree : std::min<int64_t>(degree, fanout);
  RandomStream random(11, RandomPurpose::kNeighborSampling, key.epoch_key,
                      key.batch, layer << 48 | node);
  std::set<int64_t> chosen;
  for (int64_t last = degree - kept; last < degree; ++last) {
    const int64_t drawn =
        kept == degree ? last : static_cast<int64_t>(random.Below(last + 1));
    chosen.insert(chosen.count(drawn) > 0 ? last : drawn);
  }
  std::vector<NodeId> sources;
  for (const int64_t i : chosen) {
    sources.push_back(graph.indices[graph.indptr[node] + i]);
  }
  return sources;
}

// Nodes in the order in which they are met, in a hash map.
class Met {
 public:
  explicit Met(const std::vector<NodeId>& seeds) {
    for (const NodeId seed : seeds) PositionOf(seed);
  }

  int32_t PositionOf(NodeId node) {
    const auto [it, added] = positions_.emplace(node, positions_.size());
    if (added) nodes_.push_back(node);
    return it->second;
  }

  const std::vector<NodeId>& nodes() const { return nodes_; }

 private:
  std::unordered_map<NodeId, int32_t> positions_;
  std::vector<NodeId> nodes_;
};

// The nodes of a batch with these blocks, from the seeds outward.
MiniBatch Assemble(const Graph& graph, const Met& met,
                   std::vector<Block> blocks) {
  MiniBatch batch;
  batch.input_nodes = met.nodes();
  for (const NodeId node : batch.input_nodes) {
    batch.in_degrees.push_back(graph.indptr[node + 1] - graph.indptr[node]);
  }
  std::reverse(blocks.begin(), blocks.end());
  batch.blocks = std::move(blocks);
  return batch;
}

// The contract of Sample.
MiniBatch ReferenceSample(const Graph& graph,
                          const std::vector<int32_t>& fanouts,
                          const BatchKey& key,
                          const std::vector<NodeId>& seeds) {
  Met met(seeds);
  std::vector<Block> blocks;
  for (size_t layer = 0; layer < fanouts.size(); ++layer) {
    Block block = {.num_destinations = std::ssize(met.nodes()), .indptr = {0}};
    for (int64_t row = 0; row < block.num_destinations; ++row) {
      for (const NodeId source :
           ReferenceDraw(graph, layer, met.nodes()[row], fanouts[layer], key)) {
        block.indices.push_back(met.PositionOf(source));
      }
      block.indptr.push_back(std::ssize(block.indices));
    }
    block.num_sources = std::ssize(met.nodes());
    blocks.push_back(std::move(block));
  }
  return Assemble(graph, met, std::move(blocks));
}

// The same where each node draws once: one graph that grows by a hop at a time,
// of which each block has the edges so far.
MiniBatch ReferenceSubgraph(const Graph& graph,
                            const std::vector<int32_t>& fanouts,
                            const BatchKey& key,
                            const std::vector<NodeId>& seeds) {
  Met met(seeds);
  Block edges = {.indptr = {0}};
  std::vector<Block> blocks;
  for (size_t layer = 0; layer < fanouts.size(); ++layer) {
    const int64_t first = edges.num_destinations;
    edges.num_destinations = std::ssize(met.nodes());
    for (int64_t row = first; row < edges.num_destinations; ++row) {
      for (const NodeId source :
           ReferenceDraw(graph, layer, met.nodes()[row], fanouts[layer], key)) {
        edges.indices.push_back(met.PositionOf(source));
      }
      edges.indptr.push_back(std::ssize(edges.indices));
    }
    edges.num_sources = std::ssize(met.nodes());
    blocks.push_back(edges);
  }
  return Assemble(graph, met, std::move(blocks));
}

MiniBatch SampleSubgraph(const store::Topology& topology,
                         std::vector<int32_t> fanouts, const BatchKey& key,
                         const std::vector<NodeId>& seeds) {
  const NeighborSamplerOptions options = {
      .fanouts = std::move(fanouts), .data_seed = 11, .once = true};
  return *NewNeighborSampler(topology, options)->Sample(key, seeds);
}

// Expects that the rows of each block are the first rows of blocks[0].
void ExpectPrefixes(const MiniBatch& batch) {
  const auto expect_prefix = [](const auto& part, const auto& whole) {
    ASSERT_LE(part.size(), whole.size());
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin()));
  };
  for (const Block& block : batch.blocks) {
    const Block& whole = batch.blocks.front();
    expect_prefix(block.indptr, whole.indptr);
    expect_prefix(block.indices, whole.indices);
    expect_prefix(block.edge_types, whole.edge_types);
  }
}

// Arrays that are damaged after the sampler is made.
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
  // One sampler for batches of different sizes: no state carries over.
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

TEST_P(NeighborSamplerFanoutsTest, DrawnOnceIsTheReference) {
  const NeighborSamplerOptions options = {
      .fanouts = GetParam(), .data_seed = 11, .once = true};
  const auto sampler = NewNeighborSampler(graph_.topology(), options);
  const auto wide = NewNeighborSampler(graph_.wide_topology(), options);
  for (const uint64_t batch : {0, 1, 2, 3}) {
    const auto begin = static_cast<int64_t>(batch * 100);
    const std::vector<NodeId> seeds =
        EveryThird(begin, begin + 1000 / static_cast<int64_t>(1 + batch));
    const BatchKey key{.epoch_key = 2, .batch = batch};
    const MiniBatch expected =
        ReferenceSubgraph(graph_, GetParam(), key, seeds);
    const MiniBatch sampled = *sampler->Sample(key, seeds);
    ExpectEqual(expected, sampled);
    ExpectEqual(expected, *wide->Sample(key, seeds));
    ExpectPrefixes(sampled);
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
      // Also backwards, so that each batch has another predecessor.
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

TEST(NeighborSamplerTest, ANodeThatDrawsOnceHasTheSameNeighborsInAllLayers) {
  const Graph graph = Star(100);
  const MiniBatch batch = SampleSubgraph(graph.topology(), {10, 10}, {}, {0});
  EXPECT_EQ(batch.blocks[0].num_destinations, 11);
  EXPECT_EQ(batch.blocks[1].num_destinations, 1);
  EXPECT_EQ(batch.blocks[0].indices.size(), 10u);
  EXPECT_EQ(batch.blocks[0].indices, batch.blocks[1].indices);
}

TEST(NeighborSamplerTest, OfAllNeighborsOnceIsAsOftenAsInEachLayer) {
  const Graph graph = RandomGraph(1500);
  ExpectEqual(SampleOnce(graph.topology(), {-1, -1, -1}, {}, {0, 5}),
              SampleSubgraph(graph.topology(), {-1, -1, -1}, {}, {0, 5}));
}

// A node that a layer with a fan-out of 0 lets go without neighbors stays so.
TEST(NeighborSamplerTest, WhoDrawsNoneInItsLayerHasNone) {
  const Graph graph = RandomGraph(1500);
  const MiniBatch batch =
      SampleSubgraph(graph.topology(), {3, 0, -1}, {}, EveryThird(0, 90));
  ASSERT_EQ(batch.blocks.size(), 3u);
  EXPECT_EQ(batch.blocks[0].indices, batch.blocks[2].indices);
  EXPECT_EQ(batch.blocks[0].num_destinations, std::ssize(batch.input_nodes));
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
  const MiniBatch once = SampleSubgraph(graph.topology(), {-1, -1}, {}, {0});
  EXPECT_EQ(once.blocks[1].indices, (std::vector<int32_t>{1, 0, 1}));
  EXPECT_EQ(once.blocks[0].indices, (std::vector<int32_t>{1, 0, 1}));
  EXPECT_EQ(once.blocks[0].indptr, (std::vector<int64_t>{0, 3, 3}));
}

TEST(NeighborSamplerTest, OfNoSeeds) {
  const Graph graph = Star(3);
  const MiniBatch batch = SampleOnce(graph.topology(), {2}, {}, {});
  EXPECT_EQ(batch.num_seeds, 0);
  EXPECT_TRUE(batch.input_nodes.empty());
  EXPECT_EQ(batch.blocks[0].indptr, (std::vector<int64_t>{0}));
}

// Prepared plans and digests of jobs depend on every bit of a batch: a change
// here requires new versions of the formats that hold batches.
TEST(NeighborSamplerTest, NeverChanges) {
  const Graph graph = RandomGraph(1500);
  EXPECT_EQ(
      Digest(SampleOnce(graph.topology(), {10, 5, 5},
                        {.epoch_key = 3, .batch = 14}, EveryThird(100, 400))),
      "5881cdbead611916b61689ce4e2a2d51de272a8654916afad6143f726be4a17f");
  EXPECT_EQ(Digest(SampleSubgraph(graph.topology(), {10, 5, 5},
                                  {.epoch_key = 3, .batch = 14},
                                  EveryThird(100, 400))),
            "916feb3a6bdafeab59a836bd8a225a542c13cb676204344669c7f4acf85a5b0e");
}

using store::Relation;
using ::testing::HasSubstr;

std::vector<NodeId> Seeds(NodeId first, int64_t count) {
  std::vector<NodeId> seeds(static_cast<size_t>(count));
  std::iota(seeds.begin(), seeds.end(), first);
  return seeds;
}

class TypedSamplerTest : public testing::Test {
 protected:
  MiniBatch Sample(const NeighborSamplerOptions& options,
                   const std::vector<NodeId>& seeds) {
    relations_ = example_.Relations();
    return *NewTypedSampler(relations_, nodes_, options)
                ->Sample({.epoch_key = 2, .batch = 7}, seeds);
  }

  TypedExample example_;
  const store::NodeSpace& nodes_ = example_.nodes;
  std::array<TypedExample::Edges, 5>& edges_ = example_.edges;
  std::vector<Relation> relations_;
};

TEST_F(TypedSamplerTest, OneTypeOfEachIsSampledAsEver) {
  const Graph graph = RandomGraph(2000);
  const std::vector<Relation> relations = {
      {.topology = graph.topology(), .num_sources = 2000}};
  const NeighborSamplerOptions options = {.fanouts = {7, 3, -1},
                                          .data_seed = 4};
  const BatchKey key = {.epoch_key = 1, .batch = 9};
  const std::vector<NodeId> seeds = Seeds(100, 60);
  const MiniBatch expected =
      *NewNeighborSampler(graph.topology(), options)->Sample(key, seeds);
  const MiniBatch typed =
      *NewTypedSampler(relations, store::NodeSpace({2000}), options)
           ->Sample(key, seeds);
  ExpectEqual(expected, typed);
  EXPECT_EQ(typed.node_types,
            std::vector<store::TypeId>(typed.input_nodes.size(), 0));
}

// Each edge is an edge of its type, each destination has as many edges of a
// type as the fan-out allows, and nodes are numbered in the order in which they
// are met.
TEST_F(TypedSamplerTest, SamplesEachEdgeTypeByItsFanout) {
  const NeighborSamplerOptions options = {
      .fanouts = {4, 2},
      .data_seed = 4,
      .fanouts_of = {{}, {-1, 1}, {}, {0, 3}, {}}};
  const MiniBatch batch = Sample(options, Seeds(0, 50));
  ASSERT_EQ(batch.blocks.size(), 2u);
  ASSERT_EQ(batch.node_types.size(), batch.input_nodes.size());
  for (size_t i = 0; i < batch.input_nodes.size(); ++i) {
    EXPECT_EQ(batch.node_types[i], nodes_.TypeOf(batch.input_nodes[i]));
  }
  for (size_t hop = 0; hop < 2; ++hop) {
    const Block& block = batch.blocks[1 - hop];
    ASSERT_EQ(block.edge_types.size(), block.indices.size());
    int32_t met = static_cast<int32_t>(block.num_destinations);
    for (int64_t row = 0; row < block.num_destinations; ++row) {
      std::array<int64_t, 5> drawn = {};
      int64_t at = block.indptr[row];
      for (; at < block.indptr[row + 1]; ++at) {
        const store::TypeId type = block.edge_types[at];
        ++drawn[type];
        if (at > block.indptr[row]) {
          EXPECT_LE(block.edge_types[at - 1], type);
        }
        EXPECT_LE(block.indices[at], met);
        met = std::max(met, block.indices[at] + 1);
        const TypedExample::Edges& edges = edges_[type];
        const NodeId node =
            batch.input_nodes[row] - nodes_.First(edges.destination);
        const NodeId neighbor =
            batch.input_nodes[block.indices[at]] - nodes_.First(edges.source);
        const auto begin = edges.graph.indices.begin();
        EXPECT_NE(std::find(begin + edges.graph.indptr[node],
                            begin + edges.graph.indptr[node + 1], neighbor),
                  begin + edges.graph.indptr[node + 1]);
      }
      int64_t in_degree = 0;
      for (size_t type = 0; type < edges_.size(); ++type) {
        const TypedExample::Edges& edges = edges_[type];
        if (batch.node_types[row] != edges.destination) {
          EXPECT_EQ(drawn[type], 0);
          continue;
        }
        const NodeId node =
            batch.input_nodes[row] - nodes_.First(edges.destination);
        const int64_t degree =
            edges.graph.indptr[node + 1] - edges.graph.indptr[node];
        const int32_t fanout = options.Fanout(hop, type);
        EXPECT_EQ(drawn[type],
                  fanout < 0 ? degree : std::min<int64_t>(degree, fanout));
        in_degree += degree;
      }
      EXPECT_EQ(batch.in_degrees[row], in_degree);
    }
    EXPECT_EQ(met, block.num_sources);
  }
}

TEST_F(TypedSamplerTest, EdgeTypesOfANodeDrawIndependently) {
  // Two types with the same neighbors.
  edges_[1] = {edges_[0].graph, 0, 0};
  const MiniBatch batch =
      Sample({.fanouts = {3}, .data_seed = 4}, Seeds(0, 300));
  const Block& block = batch.blocks[0];
  int64_t differ = 0;
  for (NodeId hub = 0; hub < 300; hub += 11) {
    const auto begin = block.indices.begin() + block.indptr[hub];
    differ += !std::equal(begin, begin + 3, begin + 3);
  }
  EXPECT_GT(differ, 20);
}

// It draws what it draws as the only seed, if fan-outs of 0 let nothing be
// drawn before its layer.
TEST_F(TypedSamplerTest, ANodeDrawsOnceByEachEdgeType) {
  NeighborSamplerOptions options = {
      .fanouts = {4, 2, 3},
      .data_seed = 4,
      .fanouts_of = {{}, {-1, 1, 2}, {}, {0, 3, 1}},
      .once = true};
  const MiniBatch batch = Sample(options, Seeds(0, 50));
  ExpectPrefixes(batch);
  ASSERT_EQ(batch.blocks.size(), 3u);
  options.once = false;
  const Block& block = batch.blocks.front();
  std::vector<NodeId> met = Seeds(0, 50);
  for (size_t layer = 0; layer < 3; ++layer) {
    const int64_t first =
        layer == 0 ? 0 : batch.blocks[3 - layer].num_destinations;
    const int64_t end = batch.blocks[2 - layer].num_destinations;
    ASSERT_EQ(std::ssize(met), end);
    for (int64_t row = first; row < end; ++row) {
      const MiniBatch alone = Sample(options, {batch.input_nodes[row]});
      const Block& drawn = alone.blocks[2 - layer];
      ASSERT_EQ(block.indptr[row + 1] - block.indptr[row],
                std::ssize(drawn.indices));
      for (size_t i = 0; i < drawn.indices.size(); ++i) {
        const size_t edge = static_cast<size_t>(block.indptr[row]) + i;
        const NodeId source = alone.input_nodes[drawn.indices[i]];
        EXPECT_EQ(batch.input_nodes[block.indices[edge]], source);
        EXPECT_EQ(block.edge_types[edge], drawn.edge_types[i]);
        if (std::find(met.begin(), met.end(), source) == met.end()) {
          met.push_back(source);
        }
      }
    }
    for (std::vector<int32_t>& of : options.fanouts_of) {
      if (!of.empty()) of[layer] = 0;
    }
    options.fanouts[layer] = 0;
  }
  EXPECT_EQ(met, batch.input_nodes);
}

TEST_F(TypedSamplerTest, TwoStepsGiveTheSameBatch) {
  const NeighborSamplerOptions options = {.fanouts = {4, 2, 3}, .data_seed = 4};
  const std::vector<NodeId> seeds = Seeds(10, 30);
  const MiniBatch expected = Sample(options, seeds);
  const auto sampler = NewTypedSampler(relations_, nodes_, options);
  MiniBatch batch = *sampler->SampleTop({.epoch_key = 2, .batch = 7}, seeds);
  ASSERT_EQ(batch.top->node_types.size(), batch.top->nodes.size());
  batch.top->computed.resize(batch.top->nodes.size());
  std::iota(batch.top->computed.begin(), batch.top->computed.end(), 0);
  ASSERT_TRUE(sampler->SampleRest(batch).ok());
  ExpectEqual(expected, batch);
  EXPECT_EQ(expected.node_types, batch.node_types);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(expected.blocks[i].edge_types, batch.blocks[i].edge_types);
  }
}

TEST_F(TypedSamplerTest, DamagedArraysAreDataLoss) {
  const auto sample = [&] {
    relations_ = example_.Relations();
    return NewTypedSampler(relations_, nodes_, {.fanouts = {-1, -1}})
        ->Sample({}, Seeds(0, 300))
        .status();
  };
  EXPECT_TRUE(sample().ok());
  for (const int32_t wrong : {-1, 20}) {
    std::vector<int64_t>& indices = edges_[3].graph.wide_indices;
    const int64_t right = std::exchange(indices[5], wrong);
    const absl::Status status = sample();
    EXPECT_TRUE(absl::IsDataLoss(status)) << wrong;
    EXPECT_THAT(status.message(), HasSubstr("edge type \"e3\"")) << wrong;
    indices[5] = right;
  }
  edges_[2].graph.indptr[5] = 1 << 20;
  const absl::Status status = sample();
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(status.message(), HasSubstr("edge type \"e2\""));
}

}  // namespace

}  // namespace hearth::sample
