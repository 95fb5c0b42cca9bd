#ifndef HEARTH_ENGINE_SAMPLE_GRAPH_FIXTURE_H_
#define HEARTH_ENGINE_SAMPLE_GRAPH_FIXTURE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/random.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/graph.h"
#include "engine/store/topology.h"
#include "gtest/gtest.h"

namespace hearth::sample {

/// A graph and the arrays behind it.
struct Graph {
  std::vector<int64_t> indptr = {0};
  std::vector<int32_t> indices;
  std::vector<int64_t> wide_indices;

  void AddRow(const std::vector<int32_t>& sources) {
    indices.insert(indices.end(), sources.begin(), sources.end());
    wide_indices.insert(wide_indices.end(), sources.begin(), sources.end());
    indptr.push_back(static_cast<int64_t>(indices.size()));
  }

  store::Topology topology() const {
    return {indptr, absl::Span<const int32_t>(indices)};
  }
  store::Topology wide_topology() const {
    return {indptr, absl::Span<const int64_t>(wide_indices)};
  }
};

/// A random graph with isolated nodes, short rows, repeated edges, and every
/// seventeenth node a hub.
inline Graph RandomGraph(int64_t num_nodes) {
  Graph graph;
  RandomStream random(5, RandomPurpose::kGenerator);
  for (int64_t node = 0; node < num_nodes; ++node) {
    const uint64_t degree = node % 17 == 0 ? 150 : random.Below(25);
    std::vector<int32_t> sources(degree);
    for (int32_t& source : sources) {
      source = static_cast<int32_t>(random.Below(num_nodes));
    }
    graph.AddRow(sources);
  }
  return graph;
}

/// Expects that two batches have the same nodes and edges.
inline void ExpectEqual(const MiniBatch& expected, const MiniBatch& actual) {
  EXPECT_EQ(expected.input_nodes, actual.input_nodes);
  EXPECT_EQ(expected.in_degrees, actual.in_degrees);
  ASSERT_EQ(expected.blocks.size(), actual.blocks.size());
  for (size_t i = 0; i < expected.blocks.size(); ++i) {
    const Block& block = expected.blocks[i];
    EXPECT_EQ(block.num_sources, actual.blocks[i].num_sources);
    EXPECT_EQ(block.num_destinations, actual.blocks[i].num_destinations);
    EXPECT_EQ(block.indptr, actual.blocks[i].indptr);
    EXPECT_EQ(block.indices, actual.blocks[i].indices);
    EXPECT_EQ(block.weights, actual.blocks[i].weights);
  }
}

/// Rows of random neighbors among `num_sources`, some empty, some long.
inline Graph RandomRelation(int64_t num_destinations, int64_t num_sources,
                            uint64_t seed) {
  Graph graph;
  RandomStream random(seed, RandomPurpose::kGenerator);
  for (int64_t node = 0; node < num_destinations; ++node) {
    std::vector<int32_t> sources(node % 11 == 0 ? 60 : random.Below(9));
    for (int32_t& source : sources) {
      source = static_cast<int32_t>(random.Below(num_sources));
    }
    graph.AddRow(sources);
  }
  return graph;
}

/// A heterograph: papers 0 .. 299, authors 300 .. 499, a type without nodes,
/// venues 500 .. 519.
struct TypedExample {
  /// The edges of one type.
  struct Edges {
    Graph graph;
    size_t source = 0;
    size_t destination = 0;
  };

  /// Indices of every other edge type have 8 bytes.
  static bool IsWide(size_t type) { return type % 2 == 1; }

  std::vector<store::Relation> Relations() const {
    std::vector<store::Relation> relations;
    for (const Edges& one : edges) {
      const size_t type = relations.size();
      relations.push_back({.topology = IsWide(type) ? one.graph.wide_topology()
                                                    : one.graph.topology(),
                           .type = static_cast<store::TypeId>(type),
                           .name = absl::StrCat("e", type),
                           .first_destination = nodes.First(one.destination),
                           .first_source = nodes.First(one.source),
                           .num_sources = nodes.First(one.source + 1) -
                                          nodes.First(one.source)});
    }
    return relations;
  }

  /// In-neighbors of a node by all edge types, concatenated by type.
  std::vector<store::NodeId> ListOf(store::NodeId node) const {
    std::vector<store::NodeId> list;
    for (const Edges& one : edges) {
      const store::NodeId local = node - nodes.First(one.destination);
      if (nodes.TypeOf(node) != one.destination) continue;
      for (int64_t i = one.graph.indptr[local]; i < one.graph.indptr[local + 1];
           ++i) {
        list.push_back(nodes.First(one.source) + one.graph.indices[i]);
      }
    }
    return list;
  }

  store::NodeSpace nodes{std::vector<int64_t>{300, 200, 0, 20}};
  std::array<Edges, 5> edges = {Edges{RandomRelation(300, 300, 1), 0, 0},
                                Edges{RandomRelation(300, 200, 2), 1, 0},
                                Edges{RandomRelation(200, 300, 3), 0, 1},
                                Edges{RandomRelation(300, 20, 4), 3, 0},
                                Edges{Graph(), 0, 2}};
};

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_GRAPH_FIXTURE_H_
