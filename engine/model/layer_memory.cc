#include "engine/model/layer_memory.h"

// The tensors of one layer, with S sources, D destinations, I input columns and
// O output columns (of all heads, for attention):
//
//   S x I   gradient of the layer's input (none for the first layer)
//   S x O   products of the sources, where they come before the sum, and their
//           gradient
//   D x I   sums of the inputs, where they come first, and their gradient
//   D x O   output, before and after ReLU and dropout, and their gradients
//
// with attention besides, for each edge and head, scores, weights and their
// gradients. All are float32.

namespace hearth::model {
namespace {

constexpr uint64_t kFloat = sizeof(float);
// Positions, weights and the transposed adjacency.
constexpr uint64_t kEdgeBytes = 24;
constexpr uint64_t kNodeBytes = 32;
constexpr uint64_t kAttentionArrays = 6;

// With a self loop at each destination.
uint64_t EdgesWithLoops(const BlockSize& block) {
  return block.edges + block.destinations;
}

}  // namespace

LayerMemory PropagationMemory(const LayerPlace& place, int64_t width,
                              const BlockSize& block) {
  const auto in = static_cast<uint64_t>(place.in);
  const auto out = static_cast<uint64_t>(width);
  const uint64_t input_gradient = place.first ? 0 : block.sources * in;
  return {
      // Two matrices, and vectors of the output's width.
      .parameters = kFloat * (2 * in * out + 4 * out),
      .tensors = kFloat * (input_gradient + 2 * block.sources * out +
                           2 * block.destinations * in +
                           4 * block.destinations * out) +
                 kEdgeBytes * EdgesWithLoops(block) +
                 kNodeBytes * block.sources,
  };
}

LayerMemory AttentionMemory(int64_t heads, const BlockSize& block) {
  return {.tensors =
              kFloat * static_cast<uint64_t>(heads) *
              (kAttentionArrays * EdgesWithLoops(block) + 4 * block.sources)};
}

}  // namespace hearth::model
