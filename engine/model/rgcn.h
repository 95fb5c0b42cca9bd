#ifndef HEARTH_ENGINE_MODEL_RGCN_H_
#define HEARTH_ENGINE_MODEL_RGCN_H_

#include <memory>

#include "engine/model/model_kind.h"
#include "engine/train/model_options.h"

namespace hearth::model {

/// PyG's RGCNConv with mean aggregation for a graph of this shape, all edge
/// types of which are relations of every layer.
std::unique_ptr<ModelKind> NewRgcn(const train::RgcnOptions& options,
                                   const train::ModelShape& shape);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_RGCN_H_
