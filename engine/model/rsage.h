#ifndef HEARTH_ENGINE_MODEL_RSAGE_H_
#define HEARTH_ENGINE_MODEL_RSAGE_H_

#include <memory>

#include "engine/model/model_kind.h"
#include "engine/train/model_options.h"

namespace hearth::model {

/// PyG's HeteroConv of SAGEConv with mean aggregation and without root weights,
/// for a graph of this shape.
std::unique_ptr<ModelKind> NewRsage(const train::RsageOptions& options,
                                    const train::ModelShape& shape);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_RSAGE_H_
