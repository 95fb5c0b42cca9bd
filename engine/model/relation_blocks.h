#ifndef HEARTH_ENGINE_MODEL_RELATION_BLOCKS_H_
#define HEARTH_ENGINE_MODEL_RELATION_BLOCKS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "engine/model/adjacency.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/topology.h"

namespace hearth::model {

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

#endif  // HEARTH_ENGINE_MODEL_RELATION_BLOCKS_H_
