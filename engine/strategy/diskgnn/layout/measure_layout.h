#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_MEASURE_LAYOUT_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_MEASURE_LAYOUT_H_

#include <cstdint>
#include <stop_token>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/plan/access_trace.h"
#include "engine/strategy/diskgnn/layout/memory_levels.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"
#include "engine/strategy/diskgnn/layout/segment_planner.h"
#include "engine/strategy/diskgnn/layout/segmentation.h"

namespace hearth::strategy {

/// The trace, levels and sizes that a layout is made for. All outlive its use.
struct LayoutInput {
  plan::AccessTrace* trace = nullptr;
  const MemoryLevels* levels = nullptr;
  int64_t row_bytes = 0;
  /// [num_batches] of the encoded graph samples.
  absl::Span<const uint64_t> sample_bytes;
};

/// The exact layout under `segmentation`, but for checksums: its sizes depend
/// on counts alone, so that nothing is reordered. Walks the trace twice.
/// Memory: that of a SegmentPlanner. INVALID_ARGUMENT for input that does not
/// fit together; other errors as SegmentPlanner.
absl::StatusOr<PackedLayout> MeasureLayout(const LayoutInput& input,
                                           const Segmentation& segmentation,
                                           const std::stop_token& stop);

/// INVALID_ARGUMENT unless the input fits together, and the segmentation to it.
absl::Status CheckLayoutInput(const LayoutInput& input,
                              const Segmentation& segmentation);

/// How many rows of a batch each level has, in the chosen segment.
LevelCounts CountLevels(const SegmentPlanner& planner,
                        absl::Span<const store::NodeId> nodes);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_MEASURE_LAYOUT_H_
