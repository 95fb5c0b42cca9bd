#include "engine/model/relation_memory.h"

#include <algorithm>

// The tensors of one layer, with S sources and D destinations, of which the
// relations together have S' and D', I input columns and O output columns:
//
//   S' x I   rows as they are gathered, which stay where products come first
//   D' x I   sums of the inputs, which stay where they come first
//   S x O    products, or their gradient: of one relation at a time
//   D x O    rows of one relation's destinations, or their gradient
//   D x O    output, its gradient before and after the activation, and rows of
//            one type, whose sum is the gradient of a bias
//
// and where the input needs a gradient, in all but the first layer
//
//   S' x I   gradients of what was gathered, all at once
//   D' x I   gradient of the sums
//   S x I    gradient of the input

namespace hearth::model {
namespace {

// Positions, weights and the transposed adjacency, twice: of the relation and
// of the block.
constexpr uint64_t kEdgeBytes = 48;
// Positions and lists of edges.
constexpr uint64_t kNodeBytes = 48;

uint64_t Most(const std::vector<uint64_t>& counts) {
  return *std::max_element(counts.begin(), counts.end());
}

}  // namespace

RelationRowCounts CountRows(const RelationSchema& schema,
                            const std::vector<size_t>& relations,
                            const BlockSize& block) {
  std::vector<uint64_t> as_source(schema.node_types.size());
  std::vector<uint64_t> as_destination(schema.node_types.size());
  for (const size_t number : relations) {
    ++as_source[schema.relations[number].source];
    ++as_destination[schema.relations[number].destination];
  }
  return {.sources = std::min(block.edges, block.sources * Most(as_source)),
          .destinations =
              std::min(block.edges, block.destinations * Most(as_destination))};
}

LayerMemory RelationTensors(const LayerPlace& place,
                            const RelationRowCounts& rows,
                            const BlockSize& block) {
  const uint64_t gathered = rows.sources + rows.destinations;
  uint64_t bytes =
      MatrixBytes(gathered, place.in) + MatrixBytes(gathered, place.out) +
      4 * MatrixBytes(block.destinations, place.out) +
      kEdgeBytes * block.edges + kNodeBytes * (block.sources + gathered);
  if (!place.first) bytes += MatrixBytes(gathered + block.sources, place.in);
  // As if all were there from the forward pass to the end.
  return {.saved = bytes};
}

LayerMemory LinearMemory(int64_t in, int64_t out, uint64_t rows) {
  return {.parameters = LinearBytes(in, out),
          .saved = 2 * MatrixBytes(rows, in) + 4 * MatrixBytes(rows, out)};
}

}  // namespace hearth::model
