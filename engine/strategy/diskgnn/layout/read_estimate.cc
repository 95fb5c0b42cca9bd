#include "engine/strategy/diskgnn/layout/read_estimate.h"

#include <algorithm>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/store/topology.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"

namespace hearth::strategy {
namespace {

using store::NodeId;

// Element `index` of `count` that are spread evenly over 0 .. total - 1.
int64_t Spread(int64_t index, int64_t count, int64_t total) {
  return static_cast<int64_t>(static_cast<__int128>(index) * total / count);
}

uint64_t BatchReadBytes(const SegmentPlanner& planner,
                        absl::Span<const NodeId> nodes, int64_t row_bytes,
                        std::vector<int64_t>& rows) {
  rows.clear();
  uint64_t packed = 0;
  for (const NodeId node : nodes) {
    const Level level = planner.LevelOf(node);
    if (level == Level::kPack) packed += static_cast<uint64_t>(row_bytes);
    if (level == Level::kDisk) rows.push_back(planner.PlaceOf(node));
  }
  std::sort(rows.begin(), rows.end());
  return RoundUpToPage(packed) +
         static_cast<uint64_t>(CountPages(rows, row_bytes)) * kPageBytes;
}

}  // namespace

int64_t CountPages(absl::Span<const int64_t> rows, int64_t row_bytes) {
  constexpr auto kPage = static_cast<int64_t>(kPageBytes);
  int64_t pages = 0;
  // Those before it are counted.
  int64_t next = 0;
  for (const int64_t row : rows) {
    const int64_t first = std::max(next, row * row_bytes / kPage);
    const int64_t end = ((row + 1) * row_bytes + kPage - 1) / kPage;
    pages += std::max<int64_t>(0, end - first);
    next = std::max(next, end);
  }
  return pages;
}

absl::StatusOr<uint64_t> EstimateReadBytes(const LayoutInput& input,
                                           const Segmentation& segmentation,
                                           int64_t max_batches,
                                           SegmentPlanner& planner,
                                           const std::stop_token& stop) {
  const int64_t size = segmentation.segment_size;
  const int64_t num_segments = std::min(
      segmentation.num_segments(),
      std::max<int64_t>(1, max_batches / size + (max_batches % size != 0)));
  uint64_t bytes = 0;
  int64_t counted = 0;
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < num_segments; ++i) {
    const Segment segment = SegmentAt(
        segmentation, Spread(i, num_segments, segmentation.num_segments()));
    HEARTH_RETURN_IF_ERROR(planner.Choose(segment, stop));
    HEARTH_RETURN_IF_ERROR(planner.Order(segmentation.seed, stop));
    const int64_t in_segment = std::min(segment.size(), max_batches);
    for (int64_t j = 0; j < in_segment; ++j) {
      HEARTH_ASSIGN_OR_RETURN(
          const absl::Span<const NodeId> nodes,
          input.trace->Load(segment.begin +
                            Spread(j, in_segment, segment.size())));
      bytes += BatchReadBytes(planner, nodes, input.row_bytes, rows);
    }
    counted += in_segment;
  }
  if (counted == segmentation.num_batches || counted == 0) return bytes;
  return static_cast<uint64_t>(static_cast<double>(bytes) *
                               static_cast<double>(segmentation.num_batches) /
                               static_cast<double>(counted));
}

}  // namespace hearth::strategy
