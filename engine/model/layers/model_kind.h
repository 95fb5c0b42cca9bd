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
#include "engine/sample/mini_batch.h"
#include "engine/store/topology.h"
#include "engine/train/model_options.h"

namespace hearth::model {

/// Facts from the graph about the nodes that a layer reads.
struct LayerNodes {
  /// Of the layer's sources at least.
  SourceDegrees degrees;
  /// Likewise; empty: all are of type 0.
  absl::Span<const store::TypeId> types;
};

/// One layer of message passing with its parameters, named as in PyTorch
/// Geometric's state_dict ("lin_l.weight"). Single-owner. Throws what LibTorch
/// throws.
class Convolution {
 public:
  virtual ~Convolution() = default;

  /// Rows of the block's destinations, for `x`, those of its sources; after the
  /// `activation` if there is one, which a layer may make in one pass with its
  /// last operation.
  virtual at::Tensor Forward(
      const at::Tensor& x, const sample::Block& block, const LayerNodes& nodes,
      const std::optional<ReluActivation>& activation) const = 0;

  /// In the order in which they were drawn.
  virtual std::vector<NamedTensor> parameters() const = 0;

  /// Constants that PyG's state_dict has besides; for exports alone.
  virtual std::vector<NamedTensor> constants() const { return {}; }
};

/// Function between layers, before dropout.
enum class Activation {
  kRelu,
  /// With torch's default slope.
  kLeakyRelu,
};

/// A kind of model with its options: all that the rest of this area knows of
/// it. Immutable; thread-safe. A new kind is a pair of files that implements
/// this, and a line in model_kinds.cc.
class ModelKind {
 public:
  virtual ~ModelKind() = default;

  /// In config.json: "sage".
  virtual std::string name() const = 0;

  /// Columns between two layers.
  virtual int64_t hidden() const = 0;

  /// Attention heads; 0 for a kind without attention.
  virtual int64_t heads() const { return 0; }

  /// Matrices that others are combinations of; 0 for a kind without.
  virtual int64_t bases() const { return 0; }

  virtual Activation activation() const { return Activation::kRelu; }

  /// Whether inputs are brought to hidden() columns first, by a TypeProjection.
  virtual bool projects_inputs() const { return false; }

  /// Whether a linear layer makes the model's output: the last convolution
  /// then has hidden() columns, and an activation, as the others have.
  virtual bool has_output_layer() const { return false; }

  /// Whether types to which no edges lead drop out of later layers.
  virtual bool drops_types() const { return false; }

  /// The layer at `place`. Throws what LibTorch throws.
  virtual std::unique_ptr<Convolution> NewLayer(
      const LayerPlace& place, Initializer initializer) const = 0;

  /// An upper bound of what that layer takes for a block, forward and backward.
  virtual LayerMemory Memory(const LayerPlace& place,
                             const BlockSize& block) const = 0;

  /// Memory of the projection of inputs and of the output layer, where the
  /// model has them.
  virtual LayerMemory EndsMemory(uint64_t /*num_inputs*/,
                                 uint64_t /*num_seeds*/) const {
    return {};
  }
};

/// The places of a model's layers, the one next to the inputs first.
std::vector<LayerPlace> LayerPlaces(const ModelKind& kind,
                                    const train::ModelShape& shape);

/// The kind of model that `options` ask for, for a graph of this shape; null
/// for no model. REQUIRES: both are valid.
std::unique_ptr<ModelKind> NewModelKind(const train::ModelOptions& options,
                                        const train::ModelShape& shape);

/// INVALID_ARGUMENT saying why there is no such model for a graph of these
/// types. REQUIRES: both are valid.
absl::Status CheckTypes(const train::ModelOptions& options,
                        const train::ModelShape& shape);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_LAYERS_MODEL_KIND_H_
