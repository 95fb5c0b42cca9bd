#ifndef HEARTH_ENGINE_MODEL_LAYER_MEMORY_H_
#define HEARTH_ENGINE_MODEL_LAYER_MEMORY_H_

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
};

/// Bytes that a layer holds: its parameters, once, and the tensors of forward
/// and backward for one block, as if all lived at once.
struct LayerMemory {
  uint64_t parameters = 0;
  uint64_t tensors = 0;

  friend LayerMemory operator+(const LayerMemory& a, const LayerMemory& b) {
    return {a.parameters + b.parameters, a.tensors + b.tensors};
  }
};

/// The memory of a layer that sums rows along edges and multiplies them by up
/// to two matrices, [`width`, place.in] each; `width` is that of all heads.
LayerMemory PropagationMemory(const LayerPlace& place, int64_t width,
                              const BlockSize& block);

/// The bytes that attention by `heads` heads takes besides.
LayerMemory AttentionMemory(int64_t heads, const BlockSize& block);

/// Bytes of a float32 matrix.
inline uint64_t MatrixBytes(uint64_t rows, int64_t columns) {
  return sizeof(float) * rows * static_cast<uint64_t>(columns);
}

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_LAYER_MEMORY_H_
