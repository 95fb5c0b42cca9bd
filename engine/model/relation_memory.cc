#include "engine/model/relation_memory.h"

#include <algorithm>

// The tensors of one layer, with S sources and D destinations, of which the
// relations together have S' and D', or E' of each relation's larger end, and
// the largest relation s and d; I input columns and O output columns.
//
// Saved for the backward pass:
//   E' x I   rows as they were gathered, or sums of the inputs: of each
//   relation
//            the one or the other
//   D x O    output
// Besides, forward, while one relation's sums come:
//   d x I, s x O, d x O
// Besides, backward:
//   2 D x O  gradient of the output, before and after the activation, or rows
//            of one type, whose sum is the gradient of a bias
//   d x O, s x O, d x I    of one relation
// and where the input needs a gradient, in all but the first layer
//   s x I    gradient of what a relation gathered: as it comes, what the
//            relation saved goes
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
  const RelationRowCounts known = block.relations.value_or(
      RelationRowCounts{.sources = block.edges,
                        .destinations = block.edges,
                        .larger_ends = block.edges,
                        .most_sources = block.edges,
                        .most_destinations = block.edges});
  return {.sources = std::min(known.sources, block.sources * Most(as_source)),
          .destinations = std::min(known.destinations,
                                   block.destinations * Most(as_destination)),
          .larger_ends = std::min(
              known.larger_ends, block.sources * Most(as_source) +
                                     block.destinations * Most(as_destination)),
          .most_sources = std::min(known.most_sources, block.sources),
          .most_destinations =
              std::min(known.most_destinations, block.destinations)};
}

LayerMemory RelationTensors(const LayerPlace& place,
                            const RelationRowCounts& rows,
                            const BlockSize& block, Bytes matrix) {
  const Bytes output = MatrixBytes(block.destinations, place.out);
  const Bytes sums = MatrixBytes(rows.most_destinations, place.in);
  const Bytes of_relation =
      MatrixBytes(rows.most_sources + rows.most_destinations, place.out);
  LayerMemory memory = {
      .edges = kEdgeBytes * Bytes{block.edges} +
               kNodeBytes *
                   (Bytes{block.sources} + rows.sources + rows.destinations),
      .saved = MatrixBytes(rows.larger_ends, place.in) + output,
      .forward = sums + of_relation + ProductBytes(matrix),
      .backward = 2 * output + sums + of_relation +
                  GradientBytes(matrix, std::max(rows.most_sources,
                                                 rows.most_destinations))};
  if (!place.first) {
    memory.backward += MatrixBytes(rows.most_sources + block.sources, place.in);
  }
  return memory;
}

LayerMemory LinearMemory(int64_t in, int64_t out, uint64_t rows) {
  const Bytes parameters = LinearBytes(in, out);
  const Bytes output = MatrixBytes(rows, out);
  return {.parameters = parameters,
          .saved = MatrixBytes(rows, in) + output,
          .forward = output + ProductBytes(parameters),
          .backward = 2 * output + MatrixBytes(rows, in) +
                      GradientBytes(parameters, rows)};
}

}  // namespace hearth::model
