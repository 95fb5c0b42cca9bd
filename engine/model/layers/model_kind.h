#ifndef HEARTH_ENGINE_MODEL_LAYERS_MODEL_KIND_H_
#define HEARTH_ENGINE_MODEL_LAYERS_MODEL_KIND_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/model/cpu/adjacency.h"
#include "engine/model/cpu/relu_dropout.h"
#include "engine/model/layers/parameters.h"
#include "engine/model/layers/step_memory.h"
#include "engine/model/operators/edges.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/topology.h"
#include "engine/train/model_options.h"

/// Interfaces of a layer and of a kind of model, and the table of all kinds.

namespace hearth::model {

/// Properties in the whole graph of the nodes that a layer reads.
struct LayerNodes {
  /// Degrees of the layer's sources, or of more nodes.
  SourceDegrees degrees;
  /// Types of the layer's sources, or of more nodes; empty: all are of type 0.
  absl::Span<const store::TypeId> types;
};

/// One layer of message passing with its parameters, named as in PyTorch
/// Geometric's state_dict ("lin_l.weight"). Single-owner. Throws what LibTorch
/// throws.
class Convolution {
 public:
  virtual ~Convolution() = default;

  /// Rows of the block's destinations, for `x`, the rows of its sources; after
  /// `activation` if there is one, which a layer may fuse with its last
  /// operation.
  virtual at::Tensor Forward(
      const SourceRows& x, const sample::Block& block, const LayerNodes& nodes,
      const std::optional<ReluActivation>& activation) const = 0;

  /// Parameters in the order in which they were drawn.
  virtual std::vector<NamedTensor> parameters() const = 0;

  /// Further constants of PyG's state_dict; for exports only.
  virtual std::vector<NamedTensor> constants() const { return {}; }
};

/// Function between two layers, before dropout.
enum class Activation {
  kRelu,
  /// With torch's default slope, kLeakyReluSlope.
  kLeakyRelu,
};

/// A kind of model with its options: all that other files know of it.
/// Immutable; thread-safe. A new kind implements this class in one of the files
/// of kinds, and has a line in model_kind.cc.
class ModelKind {
 public:
  virtual ~ModelKind() = default;

  /// Name in config.json: "sage".
  virtual std::string name() const = 0;

  /// Columns between two layers.
  virtual int64_t hidden() const = 0;

  /// Attention heads; 0 for a kind without attention.
  virtual int64_t heads() const { return 0; }

  /// Number of basis matrices; 0 for a kind without.
  virtual int64_t bases() const { return 0; }

  virtual Activation activation() const { return Activation::kRelu; }

  /// Whether a TypeProjection first brings inputs to hidden() columns.
  virtual bool projects_inputs() const { return false; }

  /// Whether a linear layer makes the model's output: the last convolution then
  /// has hidden() columns and an activation, like the others.
  virtual bool has_output_layer() const { return false; }

  /// Whether types to which no edges lead have no rows in later layers.
  virtual bool drops_types() const { return false; }

  /// Layer at `place`. Throws what LibTorch throws.
  virtual std::unique_ptr<Convolution> NewLayer(
      const LayerPlace& place, Initializer initializer) const = 0;

  /// Upper bound of the memory of that layer for a block, forward and backward.
  virtual LayerMemory Memory(const LayerPlace& place,
                             const BlockSize& block) const = 0;

  /// Whether the layer at `place` would rather have the rows of blocks like
  /// `block` in place (SourceRows): then what it gathers of them at most. Only
  /// asked of the first layer, if inputs are not projected.
  virtual std::optional<Bytes> BytesInPlace(const LayerPlace& /*place*/,
                                            const BlockSize& /*block*/) const {
    return std::nullopt;
  }

  /// Memory of the TypeProjection and the output layer, where the model has
  /// them.
  virtual LayerMemory EndsMemory(uint64_t /*num_inputs*/,
                                 uint64_t /*num_seeds*/) const {
    return {};
  }
};

/// Places of a model's layers, the layer next to the inputs first.
std::vector<LayerPlace> LayerPlaces(const ModelKind& kind,
                                    const train::ModelShape& shape);

/// The kind of model of `options`, for a graph of this shape; null for
/// NoModelOptions. REQUIRES: valid `options` and `shape`.
std::unique_ptr<ModelKind> NewModelKind(const train::ModelOptions& options,
                                        const train::ModelShape& shape);

/// INVALID_ARGUMENT saying why no such model exists for a graph of these types.
/// REQUIRES: valid `options` and `shape`.
absl::Status CheckTypes(const train::ModelOptions& options,
                        const train::ModelShape& shape);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_LAYERS_MODEL_KIND_H_
