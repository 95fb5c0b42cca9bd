#ifndef HEARTH_ENGINE_MODEL_LAYER_MEMORY_H_
#define HEARTH_ENGINE_MODEL_LAYER_MEMORY_H_

#include <algorithm>
#include <cstdint>

namespace hearth::model {

/// Where a layer stands in its model.
struct LayerPlace {
  /// From 0, at the inputs.
  int64_t layer = 0;
  /// Columns of its input and output.
  int64_t in = 0;
  int64_t out = 0;
  /// Its input is the batch's, which needs no gradient.
  bool first = false;
  /// No other convolution follows.
  bool last = false;
};

/// Sizes of the block that a layer works on.
struct BlockSize {
  uint64_t sources = 0;
  uint64_t destinations = 0;
  /// Without self loops.
  uint64_t edges = 0;
  /// Bytes of an element of rows that are made for products alone
  /// (matrix_product.h, FactorType).
  uint64_t factor_bytes = sizeof(float);
};

/// Bytes that a layer holds, forward and backward, for one block. Its input is
/// another layer's output, or the batch's, and does not count; that of its
/// output does.
struct LayerMemory {
  /// The parameters, once.
  uint64_t parameters = 0;
  /// From its forward pass to the end of the step.
  uint64_t edges = 0;
  /// From its forward pass to the end of its backward pass.
  uint64_t saved = 0;
  /// The most that it holds besides in its forward pass.
  uint64_t forward = 0;
  /// The most that it holds besides in its backward pass, the gradients of its
  /// output and its input among them.
  uint64_t backward = 0;

  /// The memory of two parts of a layer, as if both held their most at once.
  friend LayerMemory operator+(const LayerMemory& a, const LayerMemory& b) {
    return {.parameters = a.parameters + b.parameters,
            .edges = a.edges + b.edges,
            .saved = a.saved + b.saved,
            .forward = a.forward + b.forward,
            .backward = a.backward + b.backward};
  }
};

/// Bytes of a float32 matrix.
inline uint64_t MatrixBytes(uint64_t rows, int64_t columns) {
  return sizeof(float) * rows * static_cast<uint64_t>(columns);
}

/// Bytes of a linear layer's parameters, its bias included.
inline uint64_t LinearBytes(int64_t in, int64_t out) {
  return MatrixBytes(static_cast<uint64_t>(in) + 1, out);
}

/// Bytes of a block's adjacency and its transposition.
uint64_t EdgesBytes(const BlockSize& block);

/// The memory of a layer that sums rows along edges and multiplies them by a
/// matrix, in either order (graph_functions.h, PropagateLinear), with a product
/// of the destinations' own rows besides if it has one.
LayerMemory PropagationMemory(const LayerPlace& place, const BlockSize& block);

/// The bytes of scores or attention for all edges of a block, and a self loop
/// at each destination.
uint64_t EdgeScoreBytes(int64_t heads, const BlockSize& block);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_LAYER_MEMORY_H_
