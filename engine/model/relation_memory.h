#ifndef HEARTH_ENGINE_MODEL_RELATION_MEMORY_H_
#define HEARTH_ENGINE_MODEL_RELATION_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/model/layer_memory.h"
#include "engine/model/relation_schema.h"

namespace hearth::model {

/// An upper bound for any block of that size in a layer of `relations`, numbers
/// of the schema's: those of the block, if they are known; a node is a source
/// or a destination in no more relations than its type is, and all of them
/// together in no more than there are edges.
RelationRowCounts CountRows(const RelationSchema& schema,
                            const std::vector<size_t>& relations,
                            const BlockSize& block);

/// The tensors of a layer whose relations have `rows` and matrices of at most
/// `matrix` bytes each: each relation gathers sources, multiplies them by its
/// matrix and sums along edges, or sums first, and is added to the others.
/// Without parameters.
LayerMemory RelationTensors(const LayerPlace& place,
                            const RelationRowCounts& rows,
                            const BlockSize& block, Bytes matrix);

/// Memory of a linear layer for `rows` rows, with a copy of its input.
LayerMemory LinearMemory(int64_t in, int64_t out, uint64_t rows);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_RELATION_MEMORY_H_
