#ifndef HEARTH_ENGINE_MODEL_LAYERS_HOMOGENEOUS_KINDS_H_
#define HEARTH_ENGINE_MODEL_LAYERS_HOMOGENEOUS_KINDS_H_

#include <ATen/core/Tensor.h>
#include <ATen/ops/eye.h>

#include <cstdint>
#include <memory>

#include "engine/model/layers/model_kind.h"
#include "engine/model/layers/step_memory.h"
#include "engine/train/model_options.h"

/// Models of graphs of one node type and one edge type, and the heads of
/// attention, which relational models share.

namespace hearth::model {

/// GraphSAGE with mean aggregation: layers are PyG's SAGEConv.
std::unique_ptr<ModelKind> NewSage(const train::SageOptions& options);

/// Graph convolutional network: layers are PyG's GCNConv. Where neighbors were
/// sampled, a layer estimates the sum over all neighbors (SymmetricAdjacency).
std::unique_ptr<ModelKind> NewGcn(const train::GcnOptions& options);

/// Graph isomorphism network: layers are PyG's GINConv with the MLP of PyG's
/// GIN, [in, out, out] with ReLU in between and without normalization. As in
/// PyG, it sums the sampled neighbors.
std::unique_ptr<ModelKind> NewGin(const train::GinOptions& options);

/// Columns of an attention layer by head: hidden layers concatenate the heads,
/// the last layer averages them.
class AttentionHeads {
 public:
  /// REQUIRES: `heads` divides place.out, or the layer is the last.
  AttentionHeads(const LayerPlace& place, int64_t heads)
      : heads_(heads),
        channels_(place.last ? place.out : place.out / heads),
        averaged_(place.last) {}

  int64_t heads() const { return heads_; }
  /// Columns of one head.
  int64_t channels() const { return channels_; }
  /// Columns of all heads.
  int64_t width() const { return heads_ * channels_; }

  /// Output of the layer, before its bias, from `sums`, [rows, width()].
  at::Tensor Join(const at::Tensor& sums) const {
    return averaged_ ? sums.view({-1, heads_, channels_}).mean(1) : sums;
  }

 private:
  int64_t heads_;
  int64_t channels_;
  bool averaged_;
};

/// Bytes of the blocks that HeadBlocks makes of `vectors` attention vectors,
/// and of the unit matrices with which it multiplies them.
inline Bytes HeadBlockBytes(const AttentionHeads& heads, uint64_t vectors) {
  return vectors * (MatrixBytes(static_cast<uint64_t>(heads.heads()),
                                heads.width() + heads.heads()));
}

/// [heads, heads * channels]: attention vectors, [1, heads, channels], as
/// diagonal blocks, so that one product gives the scores of all heads.
inline at::Tensor HeadBlocks(const at::Tensor& attention) {
  const int64_t heads = attention.size(1);
  return attention.mul(at::eye(heads, attention.options()).unsqueeze(2))
      .view({heads, heads * attention.size(2)});
}

/// Graph attention network: layers are PyG's GATConv. Hidden layers concatenate
/// their heads, the last layer averages them.
std::unique_ptr<ModelKind> NewGat(const train::GatOptions& options);

/// GATv2: layers are PyG's GATv2Conv, with separate weights for sources and
/// destinations. Hidden layers concatenate their heads, the last layer averages
/// them.
std::unique_ptr<ModelKind> NewGatv2(const train::Gatv2Options& options);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_LAYERS_HOMOGENEOUS_KINDS_H_
