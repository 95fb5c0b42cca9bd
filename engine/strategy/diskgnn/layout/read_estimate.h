#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_READ_ESTIMATE_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_READ_ESTIMATE_H_

#include <cstdint>
#include <stop_token>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/strategy/diskgnn/layout/measure_layout.h"
#include "engine/strategy/diskgnn/layout/segment_planner.h"
#include "engine/strategy/diskgnn/layout/segmentation.h"

namespace hearth::strategy {

/// Pages that hold `rows`, which are ascending, of `row_bytes` each: what is
/// read when all requests to one page are merged (DiskGNN, section 4).
int64_t CountPages(absl::Span<const int64_t> rows, int64_t row_bytes);

/// About how many bytes all batches read of packed rows and of the disk cache:
/// counted over about `max_batches` batches of segments that are spread
/// evenly over the trace, and scaled up. Exact if that is all of them.
/// `planner` is that of the input's trace and levels; what it has chosen is
/// replaced. Errors as SegmentPlanner.
absl::StatusOr<uint64_t> EstimateReadBytes(const LayoutInput& input,
                                           const Segmentation& segmentation,
                                           int64_t max_batches,
                                           SegmentPlanner& planner,
                                           const std::stop_token& stop);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_READ_ESTIMATE_H_
