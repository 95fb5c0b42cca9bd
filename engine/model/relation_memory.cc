#include "engine/model/relation_memory.h"

#include <algorithm>

// The tensors of one layer, with S sources and D destinations, of which the
// relations together have S' and D', I input columns and O output columns:
//
//   S x I    gradient of the layer's input (none for the first layer)
//   S' x I   rows as they are gathered, and their gradient (none for the first
//            layer, where rows are gathered all the same)
//   S' x O   products of the sources, where they come before the sum, and their
//            gradient
//   D' x I   sums of the inputs, where they come first, and their gradient
//   D' x O   rows of the relations' destinations, and their gradient
//   D x O    output, before and after activation and dropout, their gradients,
//            and rows of one type, whose sum is the gradient of a bias

namespace hearth::model {
namespace {

// Positions, weights and the transposed adjacency, twice: of the relation and
// of the block.
constexpr uint64_t kEdgeBytes = 48;
// Positions and lists of edges.
constexpr uint64_t kNodeBytes = 48;

}  // namespace

RelationRowCounts CountRows(const BlockSize& block, uint64_t relations) {
  return {
      .sources = std::min(block.edges, relations * block.sources),
      .destinations = std::min(block.edges, relations * block.destinations)};
}

LayerMemory RelationTensors(const LayerPlace& place, uint64_t relations,
                            const BlockSize& block) {
  const RelationRowCounts rows = CountRows(block, relations);
  const uint64_t input_gradient =
      place.first ? 0 : MatrixBytes(block.sources, place.in);
  return {.tensors =
              input_gradient + 2 * MatrixBytes(rows.sources, place.in) +
              2 * MatrixBytes(rows.sources, place.out) +
              2 * MatrixBytes(rows.destinations, place.in) +
              2 * MatrixBytes(rows.destinations, place.out) +
              5 * MatrixBytes(block.destinations, place.out) +
              kEdgeBytes * block.edges +
              kNodeBytes * (block.sources + rows.sources + rows.destinations)};
}

LayerMemory LinearMemory(int64_t in, int64_t out, uint64_t rows) {
  return {.parameters = MatrixBytes(static_cast<uint64_t>(in) + 1, out),
          .tensors = 2 * MatrixBytes(rows, in) + 4 * MatrixBytes(rows, out)};
}

}  // namespace hearth::model
