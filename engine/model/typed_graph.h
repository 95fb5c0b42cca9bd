#ifndef HEARTH_ENGINE_MODEL_TYPED_GRAPH_H_
#define HEARTH_ENGINE_MODEL_TYPED_GRAPH_H_

#include <cstdint>
#include <vector>

#include "engine/model/synthetic_batch.h"
#include "engine/store/topology.h"
#include "engine/train/model_options.h"

namespace hearth::model {

/// An edge of a heterograph between two of its nodes.
struct TypedEdge {
  int32_t source = 0;
  int32_t destination = 0;
  store::TypeId type = 0;
};

/// A heterograph in memory, for tests: nodes of all types in one numbering.
struct TypedGraph {
  train::ModelShape shape = {};
  std::vector<store::TypeId> node_types = {};
  /// By node, as many columns as its type has.
  std::vector<std::vector<float>> features = {};
  /// By node; classes.
  std::vector<int32_t> labels = {};
  std::vector<TypedEdge> edges = {};
};

/// A random graph of these types, with `num_edges` edges of each type, in which
/// nodes have types in turn.
TypedGraph MakeTypedGraph(const train::ModelShape& shape, int32_t num_nodes,
                          int64_t num_edges, uint64_t seed);

/// The batch of `seeds` with all neighbors, in as many layers as the shape has.
/// Values behind a row's columns are NaN.
SyntheticBatch WholeNeighborhood(const TypedGraph& graph,
                                 const std::vector<int32_t>& seeds);

/// The nodes of the target type, ascending.
std::vector<int32_t> TargetNodes(const TypedGraph& graph);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_TYPED_GRAPH_H_
