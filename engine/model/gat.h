#ifndef HEARTH_ENGINE_MODEL_GAT_H_
#define HEARTH_ENGINE_MODEL_GAT_H_

#include <memory>

#include "engine/model/model_kind.h"
#include "engine/train/model_options.h"

namespace hearth::model {

/// Graph attention network: layers are PyG's GATConv. Hidden layers concatenate
/// their heads, the last one averages them.
std::unique_ptr<ModelKind> NewGat(const train::GatOptions& options);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_GAT_H_
