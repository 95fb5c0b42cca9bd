#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_SPACE_ESTIMATE_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_SPACE_ESTIMATE_H_

#include <cstdint>
#include <stop_token>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/strategy/diskgnn/layout/measure_layout.h"

namespace hearth::strategy {

/// estimates[i - 1] = about how many bytes a layout takes with segments of i
/// batches and at most `max_cache_rows` rows in the disk cache: lines 1 to 7 of
/// algorithm 2 (DiskGNN, section 5.1), in one walk over the trace. What does
/// not depend on i (samples, tables, images, index) is added as it is.
/// Memory: 4 bytes a node. Errors as SegmentPlanner.
absl::StatusOr<std::vector<uint64_t>> EstimateSpace(
    const LayoutInput& input, int64_t max_cache_rows,
    const std::stop_token& stop);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_SPACE_ESTIMATE_H_
