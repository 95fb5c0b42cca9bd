#ifndef HEARTH_ENGINE_MODEL_MODEL_KIND_H_
#define HEARTH_ENGINE_MODEL_MODEL_KIND_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/model/convolution.h"
#include "engine/model/initializer.h"
#include "engine/model/layer_memory.h"
#include "engine/train/model_options.h"

namespace hearth::model {

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

  /// The layer at `place`. Throws what LibTorch throws.
  virtual std::unique_ptr<Convolution> NewLayer(
      const LayerPlace& place, Initializer initializer) const = 0;

  /// An upper bound of what that layer takes for a block, forward and backward.
  virtual LayerMemory Memory(const LayerPlace& place,
                             const BlockSize& block) const = 0;
};

/// The places of a model's layers, the one next to the inputs first.
std::vector<LayerPlace> LayerPlaces(const ModelKind& kind,
                                    const train::ModelShape& shape);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_MODEL_KIND_H_
