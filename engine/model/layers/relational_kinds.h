#ifndef HEARTH_ENGINE_MODEL_LAYERS_RELATIONAL_KINDS_H_
#define HEARTH_ENGINE_MODEL_LAYERS_RELATIONAL_KINDS_H_

#include <memory>

#include "engine/model/layers/model_kind.h"
#include "engine/train/model_options.h"

namespace hearth::model {

/// PyG's RGCNConv with mean aggregation, for a graph of this shape. Each edge
/// type is a relation of every layer.
std::unique_ptr<ModelKind> NewRgcn(const train::RgcnOptions& options,
                                   const train::ModelShape& shape);

/// PyG's HeteroConv of SAGEConv with mean aggregation and without root weights,
/// for a graph of this shape.
std::unique_ptr<ModelKind> NewRsage(const train::RsageOptions& options,
                                    const train::ModelShape& shape);

/// PyG's HeteroConv of GATConv without self loops, whose heads are concatenated
/// in every layer, for a graph of this shape.
std::unique_ptr<ModelKind> NewRgat(const train::RgatOptions& options,
                                   const train::ModelShape& shape);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_LAYERS_RELATIONAL_KINDS_H_
