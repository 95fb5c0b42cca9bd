#ifndef HEARTH_ENGINE_MODEL_RELATION_SCHEMA_H_
#define HEARTH_ENGINE_MODEL_RELATION_SCHEMA_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
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

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_RELATION_SCHEMA_H_
