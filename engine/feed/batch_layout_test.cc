#include "engine/feed/batch_layout.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/random.h"
#include "engine/io/aligned_memory.h"
#include "engine/sample/batch_shape.h"
#include "engine/sample/graph_fixture.h"
#include "engine/sample/mini_batch.h"
#include "engine/sample/neighbor_sampler.h"
#include "engine/store/graph.h"
#include "engine/store/labels.h"
#include "engine/store/manifest.h"
#include "engine/store/topology.h"
#include "engine/train/train_step.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::feed {

namespace {

using sample::Block;
using sample::MiniBatch;
using sample::NeighborSampler;
using sample::NeighborSamplerOptions;
using store::LabelKind;
using store::NodeId;
using store::TypeId;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Numbers = std::vector<int64_t>;

constexpr int64_t kFeatureDim = 8;

// The arrays of a batch, filled in, to be read by name.
class Filled {
 public:
  Filled(BatchLayout layout, const MiniBatch& sample,
         const store::LabelsView& labels, const FeedGraph& graph,
         const BatchExtras& extras = {},
         const store::Labels* all_labels = nullptr) {
    const train::BatchView view = {.sample = sample,
                                   .feature_dim = kFeatureDim,
                                   .labels = labels,
                                   .all_labels = all_labels};
    absl::StatusOr<BatchArrays> described =
        DescribeArrays(layout, view, graph, extras);
    EXPECT_TRUE(described.ok()) << described.status();
    if (!described.ok()) return;
    arrays = *std::move(described);
    memory_ = *io::AlignedMemory::Allocate(arrays.bytes + kGuardBytes);
    std::fill(memory_.bytes().begin(), memory_.bytes().end(), kGuard);
    FillArrays(arrays, view, graph, memory_.bytes().data(), extras);
    CheckPlaces();
  }
  Filled(BatchLayout layout, const MiniBatch& sample, const FeedGraph& graph)
      : Filled(layout, sample, {}, graph) {}

  // The numbers of an array; no such array: a failure.
  Numbers Int64(const std::string& name,
                std::optional<uint32_t> of_type = std::nullopt,
                std::optional<uint32_t> layer = std::nullopt) const {
    return Read<int64_t>(Array::Type::kInt64, name, of_type, layer);
  }
  std::vector<float> Float(const std::string& name,
                           std::optional<uint32_t> layer = std::nullopt) const {
    return Read<float>(Array::Type::kFloat32, name, std::nullopt, layer);
  }

  const Array* Find(const std::string& name,
                    std::optional<uint32_t> of_type = std::nullopt,
                    std::optional<uint32_t> layer = std::nullopt) const {
    const Array* found = nullptr;
    for (const Array& array : arrays.arrays) {
      if (array.name != name || array.of_type != of_type ||
          array.layer != layer) {
        continue;
      }
      EXPECT_EQ(found, nullptr) << "two arrays " << name;
      found = &array;
    }
    return found;
  }

  BatchArrays arrays;

 private:
  static constexpr uint64_t kGuardBytes = 64;
  static constexpr std::byte kGuard{0xAB};

  template <typename T>
  std::vector<T> Read(Array::Type type, const std::string& name,
                      std::optional<uint32_t> of_type,
                      std::optional<uint32_t> layer) const {
    const Array* const array = Find(name, of_type, layer);
    EXPECT_NE(array, nullptr) << name;
    if (array == nullptr) return {};
    EXPECT_EQ(array->type, type) << name;
    const auto* const first =
        reinterpret_cast<const T*>(memory_.bytes().data() + array->offset);
    return {first, first + array->bytes() / sizeof(T)};
  }

  // Arrays are aligned, do not overlap, and nothing is written beside them.
  void CheckPlaces() const {
    std::vector<std::byte> beside(memory_.bytes().begin(),
                                  memory_.bytes().end());
    for (const Array& array : arrays.arrays) {
      EXPECT_EQ(array.in_rows, array.name == "x");
      if (array.in_rows) continue;
      EXPECT_EQ(array.offset % 64, 0u) << array.name;
      ASSERT_LE(array.offset + array.bytes(), arrays.bytes) << array.name;
      std::fill_n(beside.begin() + static_cast<int64_t>(array.offset),
                  array.bytes(), kGuard);
    }
    EXPECT_EQ(std::count(beside.begin(), beside.end(), kGuard),
              std::ssize(beside));
    for (const Array& a : arrays.arrays) {
      for (const Array& b : arrays.arrays) {
        if (&a == &b || a.in_rows || b.in_rows) continue;
        EXPECT_TRUE(a.offset + a.bytes() <= b.offset ||
                    b.offset + b.bytes() <= a.offset)
            << a.name << " and " << b.name;
      }
    }
  }

  io::AlignedMemory memory_;
};

// Reference: the edges of a batch as pairs of positions, hop by hop.

struct Edge {
  int64_t source = 0;
  int64_t destination = 0;
  uint32_t type = 0;
};

// Edges to the nodes that the hop before has added.
std::vector<std::vector<Edge>> EdgesByHop(const MiniBatch& sample) {
  std::vector<std::vector<Edge>> hops;
  int64_t first = 0;
  for (size_t hop = 0; hop < sample.blocks.size(); ++hop) {
    const Block& block = sample.blocks[sample.blocks.size() - 1 - hop];
    std::vector<Edge>& edges = hops.emplace_back();
    for (; first < block.num_destinations; ++first) {
      for (int64_t e = block.indptr[first]; e < block.indptr[first + 1]; ++e) {
        edges.push_back({block.indices[e], first,
                         block.edge_types.empty() ? 0u : block.edge_types[e]});
      }
    }
  }
  return hops;
}

uint32_t TypeOf(const MiniBatch& sample, int64_t position) {
  return sample.node_types.empty() ? 0u : sample.node_types[position];
}

// Positions in the batch of the nodes of a type.
Numbers NodesOf(const MiniBatch& sample, uint32_t type) {
  Numbers nodes;
  for (int64_t i = 0; i < std::ssize(sample.input_nodes); ++i) {
    if (TypeOf(sample, i) == type) nodes.push_back(i);
  }
  return nodes;
}

int64_t PositionInType(const MiniBatch& sample, int64_t position) {
  const Numbers nodes = NodesOf(sample, TypeOf(sample, position));
  return std::find(nodes.begin(), nodes.end(), position) - nodes.begin();
}

// Seeds and the nodes that each hop added, of one type.
Numbers NodeCounts(const MiniBatch& sample, uint32_t type) {
  Numbers counts;
  int64_t begin = 0;
  const auto add = [&](int64_t end) {
    int64_t count = 0;
    for (; begin < end; ++begin) count += TypeOf(sample, begin) == type ? 1 : 0;
    counts.push_back(count);
  };
  add(sample.num_seeds);
  for (size_t hop = 0; hop < sample.blocks.size(); ++hop) {
    add(sample.blocks[sample.blocks.size() - 1 - hop].num_sources);
  }
  return counts;
}

// [2, edges] of the edges of one type, positions mapped by `map`; and their
// number in each hop.
template <typename Map>
std::pair<Numbers, Numbers> EdgeIndex(const MiniBatch& sample, uint32_t type,
                                      const Map& map) {
  Numbers sources;
  Numbers destinations;
  Numbers counts;
  for (const std::vector<Edge>& hop : EdgesByHop(sample)) {
    const int64_t before = std::ssize(sources);
    for (const Edge& edge : hop) {
      if (edge.type != type) continue;
      sources.push_back(map(edge.source));
      destinations.push_back(map(edge.destination));
    }
    counts.push_back(std::ssize(sources) - before);
  }
  sources.insert(sources.end(), destinations.begin(), destinations.end());
  return {sources, counts};
}

std::vector<std::vector<int32_t>> AllFanouts() {
  return {{-1}, {4}, {3, 2}, {0, 2}, {-1, 2}, {4, 3, 2}};
}

// `count` distinct nodes from `first` to `end` - 1.
std::vector<NodeId> Seeds(int64_t count, NodeId first, NodeId end,
                          uint64_t seed) {
  std::vector<NodeId> nodes(static_cast<size_t>(end - first));
  std::iota(nodes.begin(), nodes.end(), first);
  RandomStream random(seed, RandomPurpose::kGenerator);
  std::shuffle(nodes.begin(), nodes.end(), random);
  nodes.resize(static_cast<size_t>(count));
  return nodes;
}

MiniBatch Sample(NeighborSampler& sampler, uint64_t batch,
                 const std::vector<NodeId>& seeds) {
  absl::StatusOr<MiniBatch> sample =
      sampler.Sample({.epoch_key = 1, .batch = batch}, seeds);
  EXPECT_TRUE(sample.ok()) << sample.status();
  return *std::move(sample);
}

// Batches of a graph without types, of 0 to 30 seeds.
class PlainBatches {
 public:
  template <typename F>
  void ForEach(NeighborSamplerOptions options, const F& function) const {
    const store::Topology topology = graph_.topology();
    const std::unique_ptr<NeighborSampler> sampler =
        sample::NewNeighborSampler(topology, std::move(options));
    for (const int64_t count : {0, 1, 30, 7}) {
      const auto number = static_cast<uint64_t>(count);
      function(Sample(*sampler, number, Seeds(count, 0, 400, number)));
    }
  }

 private:
  const sample::Graph graph_ = sample::RandomGraph(400);
};

// Batches of sample::TypedExample, of seeds of each node type.
class TypedBatches {
 public:
  template <typename F>
  void ForEach(NeighborSamplerOptions options, const F& function) const {
    const std::vector<store::Relation> relations = example_.Relations();
    const std::unique_ptr<NeighborSampler> sampler =
        sample::NewTypedSampler(relations, example_.nodes, std::move(options));
    for (uint32_t target = 0; target < example_.nodes.num_types(); ++target) {
      const NodeId first = example_.nodes.First(target);
      const NodeId end = example_.nodes.First(target + 1);
      for (const int64_t count : {0, 1, 20}) {
        if (count > end - first) continue;
        function(Sample(*sampler, 3, Seeds(count, first, end, target)),
                 GraphOf(target));
      }
    }
  }

  FeedGraph GraphOf(uint32_t target) const {
    return {.nodes = example_.nodes,
            .num_edge_types = static_cast<uint32_t>(example_.edges.size()),
            .target = target};
  }

 private:
  const sample::TypedExample example_ = {};
};

TEST(GraphLayoutTest, IsOneGraphHopByHop) {
  for (const std::vector<int32_t>& fanouts : AllFanouts()) {
    PlainBatches().ForEach(
        {.fanouts = fanouts, .once = true}, [](const MiniBatch& sample) {
          const Filled filled(BatchLayout::kGraph, sample, {});
          const int64_t num_nodes = std::ssize(sample.input_nodes);
          EXPECT_EQ(filled.Find("x")->shape, (Numbers{num_nodes, kFeatureDim}));
          EXPECT_EQ(filled.Int64("n_id"), sample.input_nodes);
          EXPECT_EQ(filled.Int64("in_degrees"), sample.in_degrees);
          const auto [edges, counts] =
              EdgeIndex(sample, 0, [](int64_t position) { return position; });
          EXPECT_EQ(filled.Int64("edge_index"), edges);
          EXPECT_EQ(filled.Find("edge_index")->shape,
                    (Numbers{2, std::ssize(edges) / 2}));
          ASSERT_EQ(filled.arrays.num_sampled_nodes.size(), 1u);
          EXPECT_EQ(filled.arrays.num_sampled_nodes[0].counts,
                    NodeCounts(sample, 0));
          ASSERT_EQ(filled.arrays.num_sampled_edges.size(), 1u);
          EXPECT_EQ(filled.arrays.num_sampled_edges[0].counts, counts);
          EXPECT_THAT(filled.arrays.layers, IsEmpty());
          EXPECT_EQ(filled.arrays.arrays.size(), 4u) << "there are no labels";
        });
  }
}

TEST(GraphLayoutTest, IsAGraphOfSeveralTypes) {
  for (const std::vector<int32_t>& fanouts : AllFanouts()) {
    TypedBatches().ForEach(
        {.fanouts = fanouts, .once = true},
        [](const MiniBatch& sample, const FeedGraph& graph) {
          const Filled filled(BatchLayout::kGraph, sample, graph);
          ASSERT_EQ(filled.arrays.num_sampled_nodes.size(),
                    graph.nodes.num_types());
          for (uint32_t type = 0; type < graph.nodes.num_types(); ++type) {
            const Numbers rows = NodesOf(sample, type);
            EXPECT_EQ(filled.Int64("rows", type), rows);
            Numbers ids;
            Numbers in_degrees;
            for (const int64_t row : rows) {
              ids.push_back(sample.input_nodes[row] - graph.nodes.First(type));
              in_degrees.push_back(sample.in_degrees[row]);
            }
            EXPECT_EQ(filled.Int64("n_id", type), ids);
            EXPECT_EQ(filled.Int64("in_degrees", type), in_degrees);
            EXPECT_EQ(filled.arrays.num_sampled_nodes[type].type, type);
            EXPECT_EQ(filled.arrays.num_sampled_nodes[type].counts,
                      NodeCounts(sample, type));
          }
          ASSERT_EQ(filled.arrays.num_sampled_edges.size(),
                    graph.num_edge_types);
          for (uint32_t type = 0; type < graph.num_edge_types; ++type) {
            const auto [edges, counts] =
                EdgeIndex(sample, type, [&](int64_t position) {
                  return PositionInType(sample, position);
                });
            EXPECT_EQ(filled.Int64("edge_index", type), edges);
            EXPECT_EQ(filled.arrays.num_sampled_edges[type].type, type);
            EXPECT_EQ(filled.arrays.num_sampled_edges[type].counts, counts);
          }
        });
  }
}

// What PyG's trim_to_layer relies on: without the last k hops' edges, the last
// k hops' nodes have none.
TEST(GraphLayoutTest, TheEdgesOfEachHopAreOfTheNodesUpToIt) {
  PlainBatches().ForEach(
      {.fanouts = {4, 3, 2}, .once = true}, [](const MiniBatch& sample) {
        const Filled filled(BatchLayout::kGraph, sample, {});
        const Numbers& nodes = filled.arrays.num_sampled_nodes[0].counts;
        const Numbers& edges = filled.arrays.num_sampled_edges[0].counts;
        ASSERT_EQ(nodes.size(), 4u);
        ASSERT_EQ(edges.size(), 3u);
        EXPECT_EQ(std::accumulate(nodes.begin(), nodes.end(), int64_t{0}),
                  std::ssize(sample.input_nodes));
        const Numbers index = filled.Int64("edge_index");
        const int64_t num_edges = std::ssize(index) / 2;
        EXPECT_EQ(std::accumulate(edges.begin(), edges.end(), int64_t{0}),
                  num_edges);
        int64_t edge = 0;
        int64_t first = 0;
        for (size_t hop = 0; hop < edges.size(); ++hop) {
          const int64_t end = first + nodes[hop];
          for (int64_t i = 0; i < edges[hop]; ++i, ++edge) {
            EXPECT_LT(index[edge], end + nodes[hop + 1]);
            EXPECT_GE(index[num_edges + edge], first);
            EXPECT_LT(index[num_edges + edge], end);
          }
          first = end;
        }
      });
}

TEST(GraphLayoutTest, TypesAreTypesWhereThereIsOneOfNodes) {
  const sample::Graph one = sample::RandomRelation(50, 50, 1);
  const sample::Graph two = sample::RandomRelation(50, 50, 2);
  const FeedGraph graph = {.nodes = store::NodeSpace(Numbers{50}),
                           .num_edge_types = 2};
  const std::vector<store::Relation> relations = {
      {.topology = one.topology(), .type = 0, .num_sources = 50},
      {.topology = two.topology(), .type = 1, .num_sources = 50}};
  const std::unique_ptr<NeighborSampler> sampler = sample::NewTypedSampler(
      relations, graph.nodes, {.fanouts = {2, 2}, .once = true});
  const MiniBatch sample = Sample(*sampler, 1, {4, 9, 2});
  const Filled filled(BatchLayout::kGraph, sample, graph);
  EXPECT_EQ(filled.Int64("n_id", 0), sample.input_nodes);
  for (const uint32_t type : {0u, 1u}) {
    EXPECT_EQ(filled.Int64("edge_index", type),
              EdgeIndex(sample, type, [](int64_t position) {
                return position;
              }).first);
  }
}

// Two seeds and one neighbor, without types.
MiniBatch SmallBatch() {
  return {.key = {},
          .num_seeds = 2,
          .input_nodes = {5, 3, 8},
          .in_degrees = {1, 2, 0},
          .blocks = {{.num_sources = 3,
                      .num_destinations = 2,
                      .indptr = {0, 1, 3},
                      .indices = {2, 0, 2}}}};
}

TEST(GraphLayoutTest, ABatchWithoutTypesIsOfTheFirst) {
  const FeedGraph graph = {.nodes = store::NodeSpace(Numbers{10, 10}),
                           .num_edge_types = 2};
  const Filled filled(BatchLayout::kGraph, SmallBatch(), graph);
  EXPECT_THAT(filled.Int64("n_id", 0), ElementsAre(5, 3, 8));
  EXPECT_THAT(filled.Int64("n_id", 1), IsEmpty());
  EXPECT_THAT(filled.Int64("edge_index", 0), ElementsAre(2, 0, 2, 0, 1, 1));
  EXPECT_THAT(filled.Int64("edge_index", 1), IsEmpty());
  const Filled layers(BatchLayout::kLayers, SmallBatch(), graph);
  EXPECT_THAT(layers.Int64("node_type"), ElementsAre(0, 0, 0));
  EXPECT_THAT(layers.Int64("edge_type", std::nullopt, 0), ElementsAre(0, 0, 0));
}

absl::Status Refusal(BatchLayout layout, const MiniBatch& sample,
                     const store::LabelsView& labels = {},
                     const FeedGraph& graph = {}) {
  return DescribeArrays(
             layout,
             {.sample = sample, .feature_dim = kFeatureDim, .labels = labels},
             graph)
      .status();
}

TEST(GraphLayoutTest, RefusesBlocksThatAreNotOneGraph) {
  PlainBatches().ForEach({.fanouts = {4, 3}}, [](const MiniBatch& sample) {
    const absl::Status status = Refusal(BatchLayout::kGraph, sample);
    if (sample.num_seeds == 0) {
      EXPECT_TRUE(status.ok()) << status;
      return;
    }
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr("layer 1"));
  });
}

TEST(GraphLayoutTest, RefusesEachKindOfDifference) {
  MiniBatch sample = SmallBatch();
  sample.blocks.push_back({.num_sources = 2,
                           .num_destinations = 1,
                           .indptr = {0, 1},
                           .indices = {2},
                           .edge_types = {1}});
  sample.blocks[0].edge_types = {1, 0, 0};
  const auto refused = [&](const auto& change) {
    MiniBatch changed = sample;
    change(changed.blocks[1]);
    return absl::IsInvalidArgument(Refusal(BatchLayout::kGraph, changed));
  };
  EXPECT_FALSE(refused([](Block&) {}));
  EXPECT_TRUE(refused([](Block& block) { block.num_sources = 1; }));
  EXPECT_TRUE(refused([](Block& block) { block.indptr[1] = 2; }));
  EXPECT_TRUE(refused([](Block& block) { block.indices[0] = 1; }));
  EXPECT_TRUE(refused([](Block& block) { block.edge_types[0] = 0; }));
  EXPECT_TRUE(refused([](Block& block) { block.weights = {1}; }));
  EXPECT_TRUE(refused([](Block& block) {
    block.indptr = {0, 1, 3, 3, 3};
    block.indices = {2, 0, 2, 0};
  }));
}

TEST(LayersLayoutTest, HasABipartiteGraphForEachLayer) {
  for (const bool once : {false, true}) {
    for (const std::vector<int32_t>& fanouts : AllFanouts()) {
      PlainBatches().ForEach(
          {.fanouts = fanouts, .once = once}, [](const MiniBatch& sample) {
            const Filled filled(BatchLayout::kLayers, sample, {});
            EXPECT_EQ(filled.Int64("n_id"), sample.input_nodes);
            EXPECT_EQ(filled.Int64("in_degrees"), sample.in_degrees);
            ASSERT_EQ(filled.arrays.layers.size(), sample.blocks.size());
            for (uint32_t layer = 0; layer < sample.blocks.size(); ++layer) {
              const Block& block = sample.blocks[layer];
              EXPECT_EQ(filled.arrays.layers[layer].num_sources,
                        block.num_sources);
              EXPECT_EQ(filled.arrays.layers[layer].num_destinations,
                        block.num_destinations);
              Numbers edges(block.indices.begin(), block.indices.end());
              for (int64_t row = 0; row < block.num_destinations; ++row) {
                edges.insert(edges.end(),
                             block.indptr[row + 1] - block.indptr[row], row);
              }
              EXPECT_EQ(filled.Int64("edge_index", std::nullopt, layer), edges);
            }
            EXPECT_EQ(filled.arrays.arrays.size(), 3 + sample.blocks.size());
            EXPECT_THAT(filled.arrays.num_sampled_nodes, IsEmpty());
          });
    }
  }
}

TEST(LayersLayoutTest, HasTheTypesOfNodesAndEdges) {
  TypedBatches().ForEach(
      {.fanouts = {3, 2}}, [](const MiniBatch& sample, const FeedGraph& graph) {
        const Filled filled(BatchLayout::kLayers, sample, graph);
        EXPECT_EQ(filled.Int64("n_id"), sample.input_nodes);
        EXPECT_EQ(filled.Int64("node_type"),
                  Numbers(sample.node_types.begin(), sample.node_types.end()));
        for (uint32_t layer = 0; layer < sample.blocks.size(); ++layer) {
          const Block& block = sample.blocks[layer];
          EXPECT_EQ(filled.Int64("edge_type", std::nullopt, layer),
                    Numbers(block.edge_types.begin(), block.edge_types.end()));
        }
      });
}

TEST(LayersLayoutTest, HasTheWeightsOfEdges) {
  PlainBatches().ForEach(
      {.fanouts = {-1, -1}, .layer_nodes = {20, 30}},
      [](const MiniBatch& sample) {
        const Filled filled(BatchLayout::kLayers, sample, {});
        for (uint32_t layer = 0; layer < 2; ++layer) {
          const Block& block = sample.blocks[layer];
          if (block.weights.empty()) {
            EXPECT_EQ(filled.Find("edge_weight", std::nullopt, layer), nullptr);
          } else {
            EXPECT_EQ(filled.Float("edge_weight", layer), block.weights);
          }
        }
        EXPECT_EQ(sample.num_seeds > 0, !sample.blocks[0].weights.empty());
      });
}

TEST(BatchLayoutTest, RefusesEmbeddingsOfEarlierBatches) {
  MiniBatch sample = SmallBatch();
  sample.top.emplace();
  for (const BatchLayout layout : {BatchLayout::kGraph, BatchLayout::kLayers}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Refusal(layout, sample)));
    EXPECT_TRUE(absl::IsInvalidArgument(Refusal(layout, MiniBatch())));
  }
}

FeedGraph Labeled(LabelKind kind, int64_t width) {
  return {.label_kind = kind, .label_width = width};
}

// y of SmallBatch in both layouts, which are equal.
template <typename T>
void ExpectLabels(const store::Labels& labels, const Numbers& shape,
                  const std::vector<T>& expected) {
  const FeedGraph graph = Labeled(labels.kind(), labels.width());
  for (const BatchLayout layout : {BatchLayout::kGraph, BatchLayout::kLayers}) {
    const Filled filled(layout, SmallBatch(), labels.view(), graph);
    ASSERT_NE(filled.Find("y"), nullptr);
    EXPECT_EQ(filled.Find("y")->shape, shape);
    if constexpr (std::is_same_v<T, float>) {
      const std::vector<float> y = filled.Float("y");
      ASSERT_EQ(y.size(), expected.size());
      for (size_t i = 0; i < y.size(); ++i) {
        EXPECT_TRUE(y[i] == expected[i] ||
                    (std::isnan(y[i]) && std::isnan(expected[i])))
            << i << ": " << y[i];
      }
    } else {
      EXPECT_EQ(filled.Int64("y"), expected);
    }
  }
}

const float kNaN = std::nanf("");

TEST(LabelsTest, Classes) {
  ExpectLabels<int64_t>(store::Labels::Classes({6, -1}, 7), {2}, {6, -1});
}

TEST(LabelsTest, Targets) {
  ExpectLabels<float>(store::Labels::Targets({1.5, -2, kNaN, kNaN}, 2, 2),
                      {2, 2}, {1.5, -2, kNaN, kNaN});
}

TEST(LabelsTest, SeveralLabels) {
  // Nine labels and the bit that says that there are any.
  ExpectLabels<float>(store::Labels::MultiLabel({0b00000101, 0b11, 0, 0}, 2, 9),
                      {2, 9},
                      {1, 0, 1, 0, 0, 0, 0, 0, 1, kNaN, kNaN, kNaN, kNaN, kNaN,
                       kNaN, kNaN, kNaN, kNaN});
}

TEST(LabelsTest, SeveralLabelsOfWhichSomeAreKnown) {
  ExpectLabels<float>(
      store::Labels::MultiLabel({0b1101, 0b101, 0b1000, 0b010}, 2, 3,
                                /*partial=*/true),
      {2, 3}, {1, kNaN, 1, kNaN, 0, kNaN});
}

TEST(LabelsTest, AreOfTheTargetType) {
  const FeedGraph graph = {.nodes = store::NodeSpace(Numbers{10, 10}),
                           .target = 1,
                           .label_width = 4};
  const store::Labels labels = store::Labels::Classes({2, 3}, 4);
  MiniBatch sample = SmallBatch();
  sample.input_nodes = {15, 13, 8};
  sample.node_types = {1, 1, 0};
  const Filled filled(BatchLayout::kGraph, sample, labels.view(), graph);
  EXPECT_THAT(filled.Int64("y", 1), ElementsAre(2, 3));
  const Filled layers(BatchLayout::kLayers, sample, labels.view(), graph);
  EXPECT_THAT(layers.Int64("y"), ElementsAre(2, 3));
}

// Those of all nodes are asked for; the graph's nodes 10 to 19 have labels.
TEST(LabelsTest, OfAllNodes) {
  const FeedGraph graph = {.nodes = store::NodeSpace(Numbers{10, 10}),
                           .target = 1,
                           .label_width = 4};
  auto all = store::Labels::Classes({0, 1, 2, 3, -1, 1, 2, 3, 0, 1}, 4);
  all.set_first_node(10);
  MiniBatch sample = SmallBatch();
  sample.input_nodes = {15, 8, 14};
  sample.node_types = {1, 0, 1};
  sample.num_seeds = 1;
  const store::Labels seeds = all.Gather({15});
  const BatchExtras extras = {.all_labels = true};
  const Filled filled(BatchLayout::kGraph, sample, seeds.view(), graph, extras,
                      &all);
  EXPECT_THAT(filled.Int64("n_id", 1), ElementsAre(5, 4));
  EXPECT_THAT(filled.Int64("y", 1), ElementsAre(1, -1));
  const Filled layers(BatchLayout::kLayers, sample, seeds.view(), graph, extras,
                      &all);
  EXPECT_THAT(layers.Int64("y"), ElementsAre(1, -1, -1));
}

TEST(LabelsTest, OfAllNodesOfOneType) {
  const MiniBatch sample = SmallBatch();
  const int64_t num_nodes = std::ssize(sample.input_nodes);
  const NodeId most =
      *std::max_element(sample.input_nodes.begin(), sample.input_nodes.end());
  std::vector<float> targets(static_cast<size_t>(2 * (most + 1)));
  std::iota(targets.begin(), targets.end(), 0.5f);
  const auto all = store::Labels::Targets(targets, most + 1, 2);
  const std::vector<NodeId> seeds(
      sample.input_nodes.begin(),
      sample.input_nodes.begin() + sample.num_seeds);
  const store::Labels of_seeds = all.Gather(seeds);
  for (const BatchLayout layout : {BatchLayout::kGraph, BatchLayout::kLayers}) {
    const Filled filled(layout, sample, of_seeds.view(),
                        Labeled(LabelKind::kTargets, 2), {.all_labels = true},
                        &all);
    EXPECT_EQ(filled.Find("y")->shape, (Numbers{num_nodes, 2}));
    std::vector<float> expected;
    for (const NodeId node : sample.input_nodes) {
      expected.push_back(static_cast<float>(2 * node) + 0.5f);
      expected.push_back(static_cast<float>(2 * node) + 1.5f);
    }
    EXPECT_EQ(filled.Float("y"), expected);
  }
}

TEST(InputIdTest, IsOfTheSeedsType) {
  const FeedGraph graph = {.nodes = store::NodeSpace(Numbers{10, 10}),
                           .target = 1};
  MiniBatch sample = SmallBatch();
  sample.input_nodes = {15, 13, 8};
  sample.node_types = {1, 1, 0};
  const Numbers places = {40, 7};
  const BatchExtras extras = {.input_id = places};
  const Filled filled(BatchLayout::kGraph, sample, {}, graph, extras);
  EXPECT_EQ(filled.Int64("input_id", 1), places);
  const Filled layers(BatchLayout::kLayers, sample, {}, graph, extras);
  EXPECT_EQ(layers.Int64("input_id"), places);
}

TEST(LabelsTest, OfAnEmptyShard) {
  MiniBatch sample = {.key = {}, .blocks = {{.indptr = {0}}}};
  const store::Labels labels = store::Labels::MultiLabel({}, 0, 5);
  const Filled filled(BatchLayout::kGraph, sample, labels.view(),
                      Labeled(LabelKind::kMultiLabel, 5));
  EXPECT_THAT(filled.Float("y"), IsEmpty());
  EXPECT_EQ(filled.Find("y")->shape, (Numbers{0, 5}));
  EXPECT_EQ(filled.Find("edge_index")->shape, (Numbers{2, 0}));
  EXPECT_EQ(filled.arrays.bytes, 0u);
}

TEST(LabelsTest, MustBeThoseOfTheGraph) {
  const store::Labels labels = store::Labels::Classes({1, 2}, 4);
  const auto refusal = [&](const FeedGraph& graph, const store::Labels& given) {
    return Refusal(BatchLayout::kGraph, SmallBatch(), given.view(), graph);
  };
  EXPECT_TRUE(refusal(Labeled(LabelKind::kClasses, 4), labels).ok());
  EXPECT_TRUE(refusal({}, labels).ok()) << "they are not asked for";
  for (const absl::Status& status :
       {refusal(Labeled(LabelKind::kClasses, 5), labels),
        refusal(Labeled(LabelKind::kTargets, 4), labels),
        refusal(Labeled(LabelKind::kClasses, 4),
                store::Labels::Classes({1}, 4)),
        refusal(Labeled(LabelKind::kClasses, 4), {})}) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  }
}

// Bounds: enough for the batch itself and whatever is smaller, and hardly more.
void ExpectBounded(BatchLayout layout, const MiniBatch& sample,
                   const FeedGraph& graph, sample::BatchShape& largest) {
  const auto labels =
      store::Labels::Targets(std::vector<float>(sample.num_seeds * 3),
                             sample.num_seeds, graph.label_width);
  const Numbers places(static_cast<size_t>(sample.num_seeds));
  const absl::StatusOr<BatchArrays> arrays = DescribeArrays(
      layout,
      {.sample = sample, .feature_dim = kFeatureDim, .labels = labels.view()},
      graph, {.all_labels = true, .input_id = places});
  ASSERT_TRUE(arrays.ok()) << arrays.status();
  const sample::BatchShape shape = sample::ShapeOf(sample);
  const uint64_t most = MostArrayBytes(layout, shape, graph);
  EXPECT_LE(arrays->bytes, most);
  // Padding, and weights that not every layer has.
  const auto num_edges = static_cast<uint64_t>(shape.num_edges());
  // Nodes of other types have no labels.
  const uint64_t without_labels =
      layout == BatchLayout::kGraph && graph.is_typed()
          ? 12 * static_cast<uint64_t>(shape.num_inputs())
          : 0;
  EXPECT_LE(most, arrays->bytes + 128 * (arrays->arrays.size() + 2) +
                      (shape.listed_edges > 0 ? 4 * num_edges : 0) +
                      without_labels);
  sample::Enlarge(shape, largest);
  EXPECT_LE(arrays->bytes, MostArrayBytes(layout, largest, graph));
}

TEST(MostArrayBytesTest, IsNeverExceeded) {
  for (const std::vector<int32_t>& fanouts : AllFanouts()) {
    for (const BatchLayout layout :
         {BatchLayout::kGraph, BatchLayout::kLayers}) {
      const NeighborSamplerOptions options = {
          .fanouts = fanouts, .once = layout == BatchLayout::kGraph};
      sample::BatchShape largest;
      PlainBatches().ForEach(options, [&](const MiniBatch& sample) {
        ExpectBounded(layout, sample, Labeled(LabelKind::kTargets, 3), largest);
      });
      sample::BatchShape largest_typed;
      TypedBatches().ForEach(
          options, [&](const MiniBatch& sample, FeedGraph graph) {
            graph.label_kind = LabelKind::kTargets;
            graph.label_width = 3;
            ExpectBounded(layout, sample, graph, largest_typed);
          });
    }
  }
}

TEST(MostArrayBytesTest, HasRoomForWeights) {
  sample::BatchShape largest;
  PlainBatches().ForEach({.fanouts = {-1, -1}, .layer_nodes = {20, 30}},
                         [&](const MiniBatch& sample) {
                           ExpectBounded(BatchLayout::kLayers, sample,
                                         Labeled(LabelKind::kTargets, 3),
                                         largest);
                         });
}

TEST(FeedGraphTest, IsThatOfADataset) {
  store::Manifest manifest;
  manifest.node_types.resize(2);
  manifest.node_types[0].num_nodes = 7;
  manifest.node_types[1].num_nodes = 4;
  manifest.node_types[1].label_kind = LabelKind::kMultiLabel;
  manifest.node_types[1].label_width = 12;
  manifest.edge_types.resize(3);
  const FeedGraph graph = FeedGraph::Of(manifest, 1);
  EXPECT_TRUE(graph.is_typed());
  EXPECT_EQ(graph.nodes.First(1), 7);
  EXPECT_EQ(graph.num_edge_types, 3u);
  EXPECT_EQ(graph.target, 1u);
  EXPECT_EQ(graph.label_kind, LabelKind::kMultiLabel);
  EXPECT_EQ(graph.label_width, 12);
  EXPECT_FALSE(FeedGraph().is_typed());
}

}  // namespace

}  // namespace hearth::feed
