#include "engine/strategy/diskgnn/layout/measure_layout.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/store/topology.h"

namespace hearth::strategy {

using store::NodeId;

absl::Status CheckLayoutInput(const LayoutInput& input,
                              const Segmentation& segmentation) {
  const int64_t num_batches = input.trace->num_batches();
  if (num_batches > INT32_MAX || segmentation.num_batches != num_batches ||
      std::ssize(input.sample_bytes) != num_batches) {
    return absl::InvalidArgumentError(
        absl::StrCat("a layout of ", segmentation.num_batches, " batches with ",
                     input.sample_bytes.size(), " samples is no layout for ",
                     num_batches, " batches (the limit is ", INT32_MAX, ")"));
  }
  if (input.row_bytes <= 0 || segmentation.segment_size <= 0 ||
      segmentation.max_rows < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a layout of rows of ", input.row_bytes, " bytes in segments of ",
        segmentation.segment_size, " batches with ", segmentation.max_rows,
        " rows in the disk cache cannot be made"));
  }
  return absl::OkStatus();
}

LevelCounts CountLevels(const SegmentPlanner& planner,
                        absl::Span<const NodeId> nodes) {
  LevelCounts counts;
  for (const NodeId node : nodes) {
    switch (planner.LevelOf(node)) {
      case Level::kGpu:
        ++counts.gpu;
        break;
      case Level::kCpu:
        ++counts.cpu;
        break;
      case Level::kDisk:
        ++counts.disk;
        break;
      case Level::kPack:
        ++counts.packed;
        break;
    }
  }
  return counts;
}

absl::StatusOr<PackedLayout> MeasureLayout(const LayoutInput& input,
                                           const Segmentation& segmentation,
                                           const std::stop_token& stop) {
  HEARTH_RETURN_IF_ERROR(CheckLayoutInput(input, segmentation));
  PackedLayout layout;
  layout.row_bytes = input.row_bytes;
  layout.segment_size = segmentation.segment_size;
  layout.rows.gpu = std::ssize(input.levels->gpu_nodes());
  layout.rows.cpu = std::ssize(input.levels->cpu_nodes());
  layout.chunks.reserve(static_cast<size_t>(segmentation.num_batches));
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<SegmentPlanner> planner,
                          SegmentPlanner::Make(*input.trace, *input.levels));
  for (int64_t i = 0; i < segmentation.num_segments(); ++i) {
    const Segment segment = SegmentAt(segmentation, i);
    HEARTH_RETURN_IF_ERROR(planner->Choose(segment, stop));
    for (int64_t batch = segment.begin; batch < segment.end; ++batch) {
      HEARTH_ASSIGN_OR_RETURN(const absl::Span<const NodeId> nodes,
                              input.trace->Load(batch));
      layout.AddChunk(input.sample_bytes[batch], CountLevels(*planner, nodes));
    }
    layout.rows.disk += std::ssize(planner->cached_nodes());
  }
  layout.PlaceChunks();
  return layout;
}

}  // namespace hearth::strategy
