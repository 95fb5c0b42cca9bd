#ifndef HEARTH_ENGINE_MODEL_GIN_H_
#define HEARTH_ENGINE_MODEL_GIN_H_

#include <memory>

#include "engine/model/model_kind.h"
#include "engine/train/model_options.h"

namespace hearth::model {

/// Graph isomorphism network: layers are PyG's GINConv with the MLP of PyG's
/// GIN, [in, out, out] with ReLU between and without normalization. As in PyG,
/// the sum is over the neighbors that were sampled.
std::unique_ptr<ModelKind> NewGin(const train::GinOptions& options);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_GIN_H_
