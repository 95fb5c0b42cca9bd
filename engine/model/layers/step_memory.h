#ifndef HEARTH_ENGINE_MODEL_LAYERS_STEP_MEMORY_H_
#define HEARTH_ENGINE_MODEL_LAYERS_STEP_MEMORY_H_

#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/numeric/int128.h"
#include "engine/sample/batch_shape.h"
#include "engine/train/model_options.h"

namespace hearth::model {

/// A number of bytes that options of no model can overflow.
using Bytes = absl::uint128;

/// Place of a layer in its model.
struct LayerPlace {
  /// Number of the layer, from 0 at the inputs.
  int64_t layer = 0;
  /// Columns of its input and output.
  int64_t in = 0;
  int64_t out = 0;
  /// The layer's input is the batch's, which needs no gradient.
  bool first = false;
  /// No other convolution follows.
  bool last = false;
};

/// Sums and maxima of the rows that a layer's relations read and write (as
/// sample::RelationEnds).
struct RelationRowCounts {
  uint64_t sources = 0;
  uint64_t destinations = 0;
  uint64_t larger_ends = 0;
  uint64_t most_sources = 0;
  uint64_t most_destinations = 0;
};

/// Sizes of a layer's block.
struct BlockSize {
  uint64_t sources = 0;
  uint64_t destinations = 0;
  /// Edges without self loops.
  uint64_t edges = 0;
  /// Bytes of an element of rows that are made only for products
  /// (matrix_product.h, FactorType).
  uint64_t factor_bytes = sizeof(float);
  /// Upper bounds of the rows of relations; absent: unknown, or edges are of
  /// one type.
  std::optional<RelationRowCounts> relations = {};
};

/// Bytes that a layer holds, forward and backward, for one block. Its output
/// counts, its input does not: that is the previous layer's output, or the
/// batch's.
struct LayerMemory {
  /// Exact bytes of one copy of the parameters.
  Bytes parameters = 0;
  /// Held from the layer's forward pass to the end of the step.
  Bytes edges = 0;
  /// Held from the layer's forward pass to the end of its backward pass.
  Bytes saved = 0;
  /// Maximum of further bytes in its forward pass.
  Bytes forward = 0;
  /// Maximum of further bytes in its backward pass, gradients of output and
  /// input included.
  Bytes backward = 0;

  /// Memory of two parts of a layer, as if both held their maximum at once.
  friend LayerMemory operator+(const LayerMemory& a, const LayerMemory& b) {
    return {.parameters = a.parameters + b.parameters,
            .edges = a.edges + b.edges,
            .saved = a.saved + b.saved,
            .forward = a.forward + b.forward,
            .backward = a.backward + b.backward};
  }
};

/// Bytes of a float32 matrix.
inline Bytes MatrixBytes(Bytes rows, int64_t columns) {
  return sizeof(float) * rows * static_cast<uint64_t>(columns);
}

/// Bytes of a linear layer's parameters, bias included.
inline Bytes LinearBytes(int64_t in, int64_t out) {
  return MatrixBytes(static_cast<uint64_t>(in) + 1, out);
}

/// Upper bound of the bytes that products with matrices of `bytes` take in
/// addition to their results: the matrices transposed, and as kernels read
/// them.
inline Bytes ProductBytes(Bytes bytes) { return 2 * bytes; }

/// Upper bound of the bytes that gradients of matrices of `bytes`, summed over
/// `rows` rows, and products with these matrices take in addition to their
/// results.
Bytes GradientBytes(Bytes bytes, uint64_t rows);

/// Bytes of a block's adjacency and its transpose.
Bytes EdgesBytes(const BlockSize& block);

/// Memory of a layer that sums rows along edges and multiplies them by a
/// matrix, in either order (graph_functions.h, PropagateLinear), with a further
/// product of the destinations' own rows if it has one. `parameters`: bytes of
/// all matrices.
LayerMemory PropagationMemory(const LayerPlace& place, const BlockSize& block,
                              Bytes parameters);

/// Bytes that such a layer gathers of rows in place, the destinations' own if
/// it multiplies them; absent if it may multiply first, as then it gathers all.
std::optional<Bytes> PropagationInPlace(const LayerPlace& place,
                                        const BlockSize& block, bool own_rows);

/// Bytes of scores or attention for all edges of a block and a self loop at
/// each destination.
Bytes EdgeScoreBytes(int64_t heads, const BlockSize& block);

/// Upper bound of all results here: more than any machine has, and far below an
/// overflow of sums and products of such numbers.
inline constexpr uint64_t kMostMemoryBytes = uint64_t{1} << 56;

/// The bytes that a model, its optimizer and a step on a batch of `batch` hold
/// at most: an upper bound by counting the tensors of forward and backward, for
/// admission. Makes no model. REQUIRES: valid options of a model, as many
/// layers in all.
uint64_t StepMemoryBytes(const train::TrainOptions& options,
                         const train::ModelShape& shape,
                         const sample::BatchShape& batch);

/// The most bytes that the tensors of a step hold at once, apart from
/// parameters, their gradients and the optimizer's state.
uint64_t StepTensorBytes(const train::TrainOptions& options,
                         const train::ModelShape& shape,
                         const sample::BatchShape& batch);

/// As TrainStep::BytesInPlace, for a step on the processor.
std::optional<uint64_t> StepBytesInPlace(const train::TrainOptions& options,
                                         const train::ModelShape& shape,
                                         const sample::BatchShape& batch);

/// Steps that may have begun on a device before the result of the first of them
/// is awaited: enough for it not to wait for the host.
inline constexpr int kMostPendingSteps = 2;

/// The same for a step on a GPU: what it holds there, the batch's copy with it,
/// and what it holds in the host's memory.
struct DeviceStepMemory {
  uint64_t device_bytes = 0;
  uint64_t host_bytes = 0;
};
DeviceStepMemory DeviceStepBytes(const train::TrainOptions& options,
                                 const train::ModelShape& shape,
                                 const sample::BatchShape& batch);

/// The part of StepMemoryBytes that is there between two steps: parameters, the
/// optimizer's state and copies of both, which are made when no step's memory
/// is there.
uint64_t KeptMemoryBytes(const train::TrainOptions& options,
                         const train::ModelShape& shape);

/// Bytes of one copy of the parameters, exactly as many as a Network has.
uint64_t ParameterBytes(const train::TrainOptions& options,
                        const train::ModelShape& shape);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_LAYERS_STEP_MEMORY_H_
