#ifndef HEARTH_ENGINE_MODEL_RELATION_MEMORY_H_
#define HEARTH_ENGINE_MODEL_RELATION_MEMORY_H_

#include <cstdint>

#include "engine/model/layer_memory.h"

namespace hearth::model {

/// The rows that a layer's relations read and write in all: a node may be a
/// source or a destination in several of them, but of no more edges than there
/// are.
struct RelationRowCounts {
  uint64_t sources = 0;
  uint64_t destinations = 0;
};

/// An upper bound for any block of that size.
RelationRowCounts CountRows(const BlockSize& block, uint64_t relations);

/// The tensors of a layer that for each of `relations` relations gathers
/// sources, multiplies them by a matrix and sums along edges, or sums first,
/// and adds up over relations. Without parameters.
LayerMemory RelationTensors(const LayerPlace& place, uint64_t relations,
                            const BlockSize& block);

/// What a linear layer takes for `rows` rows, with a copy of its input.
LayerMemory LinearMemory(int64_t in, int64_t out, uint64_t rows);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_RELATION_MEMORY_H_
