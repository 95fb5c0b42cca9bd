#ifndef HEARTH_ENGINE_CACHE_ASSEMBLE_H_
#define HEARTH_ENGINE_CACHE_ASSEMBLE_H_

#include "absl/types/span.h"
#include "engine/store/dataset.h"
#include "engine/store/topology.h"

namespace hearth::cache {

/// Brings the feature rows of `nodes` together: out[i] = row nodes[i], widened
/// to float32. `out` is [nodes.size(), features.dim()], row-major. The matrix
/// must be of a floating-point type, as import makes sure. Thread-safe.
void AssembleRows(const store::LoadedFeatures& features,
                  absl::Span<const store::NodeId> nodes, float* out);

}  // namespace hearth::cache

#endif  // HEARTH_ENGINE_CACHE_ASSEMBLE_H_
