#ifndef HEARTH_ENGINE_MODEL_TESTING_SYNTHETIC_BATCH_H_
#define HEARTH_ENGINE_MODEL_TESTING_SYNTHETIC_BATCH_H_

#include <stdlib.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/io/aligned_memory.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/array_type.h"
#include "engine/store/feature_rows.h"
#include "engine/store/labels.h"
#include "engine/store/topology.h"
#include "engine/train/model_options.h"
#include "engine/train/train_step.h"

/// Random batches for tests and benchmarks: plain, with a top layer, and of
/// heterographs.

namespace hearth::model {

/// Sizes of a batch to make.
struct SyntheticShape {
  /// Numbers of nodes after 0, 1, 2 ... hops, ascending: seeds first, input
  /// nodes last.
  std::vector<int64_t> nodes;
  /// Each destination has 0 to this many sampled neighbors.
  int64_t max_neighbors = 3;
  int64_t feature_dim = 0;
  store::LabelKind label_kind = store::LabelKind::kClasses;
  int64_t label_width = 0;
  uint64_t seed = 0;
};

/// A random batch for tests and benchmarks, with the arrays that its view
/// refers to. In-degrees are at least the numbers of sampled neighbors.
struct SyntheticBatch {
  sample::MiniBatch sample;
  std::unique_ptr<float[], decltype(&free)> inputs{nullptr, &free};
  int64_t feature_dim = 0;
  store::Labels labels;

  train::BatchView View() const;
};

/// The batch of `batch` with its rows in place, in slots of a cache and among
/// rows that were read, in random order, in elements of `dtype`: float32, or
/// bfloat16, which rounds them.
struct PlacedBatch {
  PlacedBatch(const SyntheticBatch& batch, store::DType dtype);

  train::BatchView View() const;

  const SyntheticBatch& batch;
  store::RowFormat format;
  uint32_t num_slots = 0;
  io::AlignedMemory slots;
  io::AlignedMemory landed;
  std::vector<uint32_t> addresses;
};

SyntheticBatch MakeBatch(const SyntheticShape& shape);

/// A batch of two layers with a top layer, for tests, with the arrays that its
/// view refers to.
struct PrunedBatch {
  /// View of the batch, with `pushed` to write to.
  train::BatchView View();

  SyntheticBatch batch = {};
  int64_t width = 0;
  /// Embeddings of pulled nodes, and memory for those of pushed nodes.
  std::vector<float> pulled = {};
  std::vector<float> pushed = {};
};

/// `whole` with the top nodes at `pulled` not computed, but pulled with their
/// rows of `embeddings`, [top nodes, width]. All others are pushed. REQUIRES:
/// `whole` has two layers; `pulled` ascends.
PrunedBatch Prune(const SyntheticBatch& whole,
                  const std::vector<int32_t>& pulled,
                  const std::vector<float>& embeddings, int64_t width);

/// `whole` with a top layer whose nodes are all computed and pushed.
PrunedBatch WithTopLayer(const SyntheticBatch& whole, int64_t width);

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
  /// Features of each node, with as many columns as its type has.
  std::vector<std::vector<float>> features = {};
  /// Class of each node.
  std::vector<int32_t> labels = {};
  std::vector<TypedEdge> edges = {};
};

/// A random graph of these types, with `num_edges` edges of each type. Node
/// types alternate.
TypedGraph MakeTypedGraph(const train::ModelShape& shape, int32_t num_nodes,
                          int64_t num_edges, uint64_t seed);

/// The batch of `seeds` with all neighbors, in as many layers as the shape has.
/// Columns that a node's type lacks are NaN.
SyntheticBatch WholeNeighborhood(const TypedGraph& graph,
                                 const std::vector<int32_t>& seeds);

/// Nodes of the target type, ascending.
std::vector<int32_t> TargetNodes(const TypedGraph& graph);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_TESTING_SYNTHETIC_BATCH_H_
