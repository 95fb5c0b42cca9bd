#ifndef HEARTH_ENGINE_SAMPLE_EXAMPLE_GRAPH_H_
#define HEARTH_ENGINE_SAMPLE_EXAMPLE_GRAPH_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "engine/base/random.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/topology.h"
#include "gtest/gtest.h"

/// The graph that the tests of samplers sample from.

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

/// Isolated nodes, short rows, one row in seventeen a hub, repeated edges.
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

/// That two batches have the same nodes and edges.
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

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_EXAMPLE_GRAPH_H_
