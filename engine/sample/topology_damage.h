#ifndef HEARTH_ENGINE_SAMPLE_TOPOLOGY_DAMAGE_H_
#define HEARTH_ENGINE_SAMPLE_TOPOLOGY_DAMAGE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "engine/store/topology.h"

/// The errors of a topology that leads out of itself: its arrays were damaged.

namespace hearth::sample {

/// DATA_LOSS: `node`, a neighbor, is not one of `num_nodes`.
absl::Status NoNode(store::NodeId node, int64_t num_nodes);

/// DATA_LOSS: the edges `start` to `end` of `node` are none of `num_edges`.
absl::Status NoRow(store::NodeId node, int64_t start, int64_t end,
                   int64_t num_edges);

/// The same of one edge type of several, which has a name: `source` is none of
/// its sources; the edges of `destination` are none of its. Both are numbered
/// within their types. Without a name, as above.
absl::Status NoSource(const store::Relation& relation, int64_t source);
absl::Status NoRow(const store::Relation& relation, int64_t destination);

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_TOPOLOGY_DAMAGE_H_
