#ifndef HEARTH_ENGINE_MODEL_RGAT_H_
#define HEARTH_ENGINE_MODEL_RGAT_H_

#include <memory>

#include "engine/model/model_kind.h"
#include "engine/train/model_options.h"

namespace hearth::model {

/// PyG's HeteroConv of GATConv without self loops, whose heads are concatenated
/// in every layer, for a graph of this shape.
std::unique_ptr<ModelKind> NewRgat(const train::RgatOptions& options,
                                   const train::ModelShape& shape);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_RGAT_H_
