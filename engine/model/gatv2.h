#ifndef HEARTH_ENGINE_MODEL_GATV2_H_
#define HEARTH_ENGINE_MODEL_GATV2_H_

#include <memory>

#include "engine/model/model_kind.h"
#include "engine/train/model_options.h"

namespace hearth::model {

/// GATv2: layers are PyG's GATv2Conv, with weights of their own for sources and
/// destinations. Hidden layers concatenate their heads, the last one averages
/// them.
std::unique_ptr<ModelKind> NewGatv2(const train::Gatv2Options& options);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_GATV2_H_
