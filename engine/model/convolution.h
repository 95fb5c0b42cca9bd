#ifndef HEARTH_ENGINE_MODEL_CONVOLUTION_H_
#define HEARTH_ENGINE_MODEL_CONVOLUTION_H_

#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "engine/model/adjacency.h"
#include "engine/model/named_tensor.h"
#include "engine/model/relu_dropout.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/topology.h"

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

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_CONVOLUTION_H_
