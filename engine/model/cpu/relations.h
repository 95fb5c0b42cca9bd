#ifndef HEARTH_ENGINE_MODEL_CPU_RELATIONS_H_
#define HEARTH_ENGINE_MODEL_CPU_RELATIONS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/model/cpu/adjacency.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/topology.h"
#include "engine/train/model_options.h"

/// Types of a graph under PyG's names, and a block split by edge type. Knows no
/// torch.

namespace hearth::model {

/// An edge type as a relational model sees it.
struct Relation {
  /// Name as in PyG's edge types (source, name, destination): an edge type that
  /// a dataset calls SOURCE__NAME__DESTINATION, after its node types, is NAME
  /// here.
  std::string name;
  size_t source = 0;
  size_t destination = 0;
};

/// The types of a graph, as relational models see them. Immutable; thread-safe.
struct RelationSchema {
  /// Node types, at least one: `node` for a graph without types.
  std::vector<train::NodeTypeShape> node_types = {};
  /// Relations by edge type, at least one: (node, edge, node) for a graph
  /// without types.
  std::vector<Relation> relations = {};
  size_t target_type = 0;

  /// Key of a relation in the state_dict of PyG's HeteroConv,
  /// "<paper___cites___paper>", whose module names have no dots.
  std::string Key(size_t relation) const;

  /// Key of a node type's module.
  std::string NodeKey(size_t type) const;

  /// Whether all node types have as many columns as the inputs.
  bool HasEqualWidths(int64_t feature_dim) const;

  /// Relations of layer number `layer`, in order, if each layer writes rows
  /// only for destinations of its relations: relations whose two ends have
  /// rows.
  std::vector<size_t> LiveRelations(int64_t layer) const;
};

/// Schema of a graph of this shape. REQUIRES: valid `shape`.
RelationSchema SchemaOf(const train::ModelShape& shape);

/// INVALID_ARGUMENT naming two node types, or two relations, with equal keys,
/// whose parameters would overwrite each other in a state_dict.
absl::Status CheckKeysDiffer(const train::ModelShape& shape);

/// INVALID_ARGUMENT naming the target type if some layer writes no rows for it.
absl::Status CheckTargetIsLive(const train::ModelShape& shape);

/// Positions of rows in a larger matrix, without repetition. Immutable; shared
/// by a layer's forward and backward.
using RowsPtr = std::shared_ptr<const std::vector<int32_t>>;

/// Edges of one type in a sampled block, over renumbered nodes at their ends:
/// source i of `edges` is source (*sources)[i] of the block, and destination i
/// is destination (*destinations)[i].
struct RelationBlock {
  Adjacency edges;
  /// Positions in the order in which edges first name them.
  RowsPtr sources;
  /// Positions, ascending.
  RowsPtr destinations;
};

/// Splits a block into one RelationBlock for each of `num_relations` edge
/// types; edge types without edges get empty ones. Edges have no weights:
/// weights of the block are dropped. Linear time.
std::vector<RelationBlock> SplitByRelation(const sample::Block& block,
                                           size_t num_relations);

/// Edges of `relation` with the block's numbers of sources, so that rows of
/// [num_sources of the block] can be summed without gathering.
Adjacency WithSourcesOfBlock(const RelationBlock& relation,
                             int64_t num_sources);

/// The first `count` nodes grouped by type, each group ascending: one list for
/// each of `num_types`. `types` [>= count]; empty: all nodes are of type 0.
std::vector<RowsPtr> RowsByType(absl::Span<const store::TypeId> types,
                                int64_t count, size_t num_types);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_CPU_RELATIONS_H_
