#ifndef HEARTH_ENGINE_MODEL_SAGE_H_
#define HEARTH_ENGINE_MODEL_SAGE_H_

#include <memory>

#include "engine/model/model_kind.h"
#include "engine/train/model_options.h"

namespace hearth::model {

/// GraphSAGE with the mean of neighbors: layers are PyG's SAGEConv.
std::unique_ptr<ModelKind> NewSage(const train::SageOptions& options);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_SAGE_H_
