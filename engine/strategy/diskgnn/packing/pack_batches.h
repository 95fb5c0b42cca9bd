#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_PACK_BATCHES_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_PACK_BATCHES_H_

#include "absl/status/statusor.h"
#include "engine/io/file_system.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"
#include "engine/strategy/diskgnn/layout/segmentation.h"
#include "engine/strategy/diskgnn/packing/pack_context.h"

namespace hearth::strategy {

/// Writes a whole plan, batched (DiskGNN, section 5.2): the feature file is
/// read once, from one end to the other, in partitions that fit in memory, and
/// the rows of each are appended to the packs of all batches, to the segments
/// of the disk cache and to the images of the memory levels. `layout` is what
/// MeasureLayout gave for `segmentation` and the same input; it comes back with
/// checksums. The same input gives the same bytes, whatever the memory limit.
///
/// The memory and the disk that it needs are known first: RESOURCE_EXHAUSTED
/// with the numbers, and nothing is written. Later errors leave nothing of the
/// plan; after a kill, a second call begins anew. FAILED_PRECONDITION if the
/// input is not what was measured; DATA_LOSS if the feature file is too short;
/// CANCELLED, within a few MiB, when a stop is requested.
absl::StatusOr<PackedLayout> PackBatches(io::FileSystem& files,
                                         const PackInput& input,
                                         const Segmentation& segmentation,
                                         PackedLayout layout,
                                         const PackOptions& options);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_PACK_BATCHES_H_
