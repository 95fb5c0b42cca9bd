#ifndef HEARTH_ENGINE_MODEL_GCN_H_
#define HEARTH_ENGINE_MODEL_GCN_H_

#include <memory>

#include "engine/model/model_kind.h"
#include "engine/train/model_options.h"

namespace hearth::model {

/// Graph convolutional network: layers are PyG's GCNConv. Where neighbors were
/// sampled, a layer estimates the sum over all of them (SymmetricAdjacency).
std::unique_ptr<ModelKind> NewGcn(const train::GcnOptions& options);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_GCN_H_
