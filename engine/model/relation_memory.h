#ifndef HEARTH_ENGINE_MODEL_RELATION_MEMORY_H_
#define HEARTH_ENGINE_MODEL_RELATION_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/model/layer_memory.h"
#include "engine/model/relation_schema.h"

namespace hearth::model {

/// The rows that a layer's relations read and write in all.
struct RelationRowCounts {
  uint64_t sources = 0;
  uint64_t destinations = 0;
};

/// An upper bound for any block of that size in a layer of `relations`, numbers
/// of the schema's: a node is a source or a destination in no more relations
/// than its type is, and all of them together in no more than there are edges.
RelationRowCounts CountRows(const RelationSchema& schema,
                            const std::vector<size_t>& relations,
                            const BlockSize& block);

/// The tensors of a layer whose relations have `rows`: they gather sources,
/// multiply them by a matrix and sum along edges, or sum first, and are added
/// up. Without parameters.
LayerMemory RelationTensors(const LayerPlace& place,
                            const RelationRowCounts& rows,
                            const BlockSize& block);

/// Memory of a linear layer for `rows` rows, with a copy of its input.
LayerMemory LinearMemory(int64_t in, int64_t out, uint64_t rows);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_RELATION_MEMORY_H_
