#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_SEGMENTATION_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_SEGMENTATION_H_

#include <cstdint>

namespace hearth::strategy {

/// How a trace is divided into segments, each with a part of the disk cache of
/// its own (DiskGNN, section 5.1): `segment_size` batches each, the last one
/// what is left.
struct Segmentation {
  /// No bound on the rows of the disk cache.
  static constexpr int64_t kUnbounded = INT64_MAX;

  int64_t num_batches = 0;
  /// At least 1. With 1, no row is needed twice, so that all are packed.
  int64_t segment_size = 1;
  /// Rows of the disk cache over all segments, at most.
  int64_t max_rows = kUnbounded;
  /// The seed of the reordering.
  uint64_t seed = 0;

  int64_t num_segments() const {
    return num_batches / segment_size + (num_batches % segment_size != 0);
  }
};

/// Batches [begin, end), which share at most max_rows rows of the disk cache.
struct Segment {
  int64_t index = 0;
  int64_t begin = 0;
  int64_t end = 0;
  int64_t max_rows = Segmentation::kUnbounded;

  int64_t size() const { return end - begin; }
};

/// Segment `index` of 0 .. num_segments() - 1. The bound is shared among the
/// segments by their batches, and all of it is given out.
Segment SegmentAt(const Segmentation& segmentation, int64_t index);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_SEGMENTATION_H_
