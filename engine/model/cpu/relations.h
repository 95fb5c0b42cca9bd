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

namespace hearth::model {

/// An edge type as a relational model sees it.
struct Relation {
  /// As in PyG's edge types, (source, name, destination): an edge type that a
  /// dataset names SOURCE__NAME__DESTINATION, after the types that it joins, is
  /// NAME here.
  std::string name;
  size_t source = 0;
  size_t destination = 0;
};

/// The types of a graph, as relational models see them. Immutable; thread-safe.
struct RelationSchema {
  /// At least one: `node` for a graph without types.
  std::vector<train::NodeTypeShape> node_types = {};
  /// At least one: (node, edge, node) for a graph without types. By edge type.
  std::vector<Relation> relations = {};
  size_t target_type = 0;

  /// The key of a relation in the state_dict of PyG's HeteroConv:
  /// "<paper___cites___paper>". Its modules have no dots in their names.
  std::string Key(size_t relation) const;

  /// That of a node type's module.
  std::string NodeKey(size_t type) const;

  /// Whether all node types have as many columns as the inputs.
  bool HasEqualWidths(int64_t feature_dim) const;

  /// The relations that layer number `layer` has, in their order, where each
  /// layer gives rows to the destinations of its relations alone: those both of
  /// whose ends have rows.
  std::vector<size_t> LiveRelations(int64_t layer) const;
};

/// The schema of a graph of this shape. REQUIRES: it is valid.
RelationSchema SchemaOf(const train::ModelShape& shape);

/// INVALID_ARGUMENT naming two node types, or two relations, that would have
/// one key, so that one's parameters would be the other's in a state_dict.
absl::Status CheckKeysDiffer(const train::ModelShape& shape);

/// INVALID_ARGUMENT naming the target type if some layer gives no rows to it.
absl::Status CheckTargetIsLive(const train::ModelShape& shape);

/// Positions of rows in a larger matrix, each once. Immutable; shared by a
/// layer's forward and backward.
using RowsPtr = std::shared_ptr<const std::vector<int32_t>>;

/// The edges of one type in a sampled block, with the nodes at their ends
/// alone, numbered anew: source i of `edges` is source (*sources)[i] of the
/// block, and destination i is destination (*destinations)[i].
struct RelationBlock {
  Adjacency edges;
  /// In the order in which edges first name them.
  RowsPtr sources;
  /// Ascending.
  RowsPtr destinations;
};

/// One for each of `num_relations` edge types; those without edges are empty.
/// Edges have no weights: the block's, if it has some, are left out. Linear
/// time.
std::vector<RelationBlock> SplitByRelation(const sample::Block& block,
                                           size_t num_relations);

/// The edges of `relation` with the block's numbers of sources: [num_sources of
/// the block] rows can be summed where they lie.
Adjacency WithSourcesOfBlock(const RelationBlock& relation,
                             int64_t num_sources);

/// The first `count` nodes by their type, ascending: one list for each of
/// `num_types`. `types` [>= count]; empty: all are of type 0.
std::vector<RowsPtr> RowsByType(absl::Span<const store::TypeId> types,
                                int64_t count, size_t num_types);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_CPU_RELATIONS_H_
