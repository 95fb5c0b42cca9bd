#include "engine/model/layer_memory.h"

#include "engine/model/graph_functions.h"
#include "engine/model/matrix_product.h"

namespace hearth::model {
namespace {

// Positions, weights and the transposed adjacency.
constexpr uint64_t kEdgeBytes = 24;
constexpr uint64_t kNodeBytes = 32;

// With a self loop at each destination.
uint64_t EdgesWithLoops(const BlockSize& block) {
  return block.edges + block.destinations;
}

// Whether blocks up to the size of `block`, with edges in about that proportion
// to their sources, may be summed first, or multiplied first.
struct Orders {
  bool sums_first = false;
  bool products_first = false;
};

Orders OrdersOf(const LayerPlace& place, const BlockSize& block) {
  Orders orders;
  for (const double proportion : {0.75, 1.0, 1.5}) {
    const bool sums_first =
        SumsFirst({.sources = static_cast<int64_t>(block.sources),
                   .destinations = static_cast<int64_t>(block.destinations),
                   .edges = static_cast<int64_t>(
                       proportion * static_cast<double>(block.edges)),
                   .in = place.in,
                   .out = place.out,
                   .needs_input_gradient = !place.first});
    (sums_first ? orders.sums_first : orders.products_first) = true;
  }
  return orders;
}

}  // namespace

Bytes GradientBytes(Bytes bytes, uint64_t rows) {
  return bytes *
         static_cast<uint64_t>(1 + NumPartialSums(static_cast<int64_t>(rows)));
}

Bytes EdgesBytes(const BlockSize& block) {
  return Bytes{kEdgeBytes} * EdgesWithLoops(block) +
         Bytes{kNodeBytes} * block.sources;
}

Bytes EdgeScoreBytes(int64_t heads, const BlockSize& block) {
  return MatrixBytes(EdgesWithLoops(block), heads);
}

// With S sources, D destinations, I input columns and O output columns, the
// sums, [D, I], stay until their part of the weight's gradient is made; sums of
// products, [D, O], come from the products, [S, O], and back to them. The
// gradient of the output is there twice where it has to be brought through an
// activation; that of the input is [S, I], and [D, I] before it is spread over
// the sources.
LayerMemory PropagationMemory(const LayerPlace& place, const BlockSize& block,
                              Bytes parameters) {
  const Bytes output = MatrixBytes(block.destinations, place.out);
  const Bytes sums = MatrixBytes(block.destinations, place.in);
  const Bytes products = MatrixBytes(block.sources, place.out);
  const Bytes input_gradient =
      place.first ? 0 : MatrixBytes(block.sources, place.in);
  LayerMemory memory = {.parameters = parameters, .edges = EdgesBytes(block)};
  const Orders orders = OrdersOf(place, block);
  if (orders.sums_first) {
    memory.saved = sums / sizeof(float) * block.factor_bytes;
    memory.backward = output;
    if (!place.first) memory.backward += output + sums + input_gradient;
    memory.backward += GradientBytes(parameters, block.destinations);
  }
  if (orders.products_first) {
    memory.forward = products + output;
    memory.backward =
        std::max(memory.backward, 2 * output + products + input_gradient +
                                      GradientBytes(parameters, block.sources));
  }
  memory.forward += ProductBytes(parameters);
  memory.saved += output;
  return memory;
}

}  // namespace hearth::model
