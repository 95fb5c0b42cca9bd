#include "engine/strategy/diskgnn/layout/segmentation.h"

#include <algorithm>

namespace hearth::strategy {
namespace {

// The rows that the first `batches` may have together.
int64_t RowsUpTo(const Segmentation& segmentation, int64_t batches) {
  return static_cast<int64_t>(static_cast<__int128>(segmentation.max_rows) *
                              batches / segmentation.num_batches);
}

}  // namespace

Segment SegmentAt(const Segmentation& segmentation, int64_t index) {
  Segment segment;
  segment.index = index;
  segment.begin = index * segmentation.segment_size;
  segment.end =
      segment.begin + std::min(segmentation.segment_size,
                               segmentation.num_batches - segment.begin);
  if (segmentation.max_rows != Segmentation::kUnbounded) {
    segment.max_rows = RowsUpTo(segmentation, segment.end) -
                       RowsUpTo(segmentation, segment.begin);
  }
  return segment;
}

}  // namespace hearth::strategy
