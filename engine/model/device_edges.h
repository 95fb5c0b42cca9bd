#ifndef HEARTH_ENGINE_MODEL_DEVICE_EDGES_H_
#define HEARTH_ENGINE_MODEL_DEVICE_EDGES_H_

#include "engine/model/adjacency.h"
#include "engine/model/edges.h"

namespace hearth::model {

/// Edges whose lists are copied to `device` and whose operations are
/// DeviceKernels'. Lists by source are made by the processor, when backward
/// passes first need them.
EdgesPtr NewDeviceEdges(Adjacency adjacency, const at::Device& device);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_DEVICE_EDGES_H_
