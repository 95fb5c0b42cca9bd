#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_LAYOUT_SEARCH_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_LAYOUT_SEARCH_H_

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/strategy/diskgnn/layout/measure_layout.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"
#include "engine/strategy/diskgnn/layout/segmentation.h"

/// How large the segments of the disk cache should be: the one-dimensional
/// approximate search of DiskGNN (section 5.1, algorithm 2).
///
/// One walk over the trace estimates the space of every segment size i from the
/// first i batches: (|V_d| + |V_p|) rows for each of n / i segments. Larger
/// segments take less space but more reads. The estimates lead to the smallest
/// size whose exact space is within the limit; this and some larger ones are
/// tried: they are reordered (algorithm 1) in a sample of segments, and the
/// bytes that the sampled batches read are counted, with the requests that fall
/// on one page of the disk cache merged. The one that reads the least is taken.

namespace hearth::strategy {

struct LayoutLimits {
  /// Bytes that the plan may add to the disk, in all.
  uint64_t disk_bytes = UINT64_MAX;
  /// The part of them that is not the layout's.
  uint64_t other_bytes = 0;
  /// Rows of the disk cache over all segments; with 0, everything is packed.
  int64_t max_cache_rows = Segmentation::kUnbounded;
};

struct LayoutSearchOptions {
  uint64_t seed = 0;
  /// Segment sizes that are reordered, at most; at least 1.
  int64_t max_tried = 5;
  /// Batches whose reads are counted for each of them; at least 1.
  int64_t max_sampled_batches = 512;
};

/// The figures of one segment size.
struct LayoutCandidate {
  int64_t segment_size = 0;
  /// By algorithm 2.
  uint64_t estimated_bytes = 0;
  /// Bytes that all batches read of packed rows and of pages of the disk cache,
  /// if it was tried.
  std::optional<uint64_t> estimated_read_bytes = std::nullopt;
  /// If the search came to it.
  std::optional<uint64_t> exact_bytes = std::nullopt;
};

struct LayoutChoice {
  Segmentation segmentation;
  PackedLayout layout;
  /// All sizes that were tried or measured, ascending.
  std::vector<LayoutCandidate> candidates;
  /// Segment sizes that were reordered.
  int64_t num_tried = 0;
  /// For people: what was chosen and why.
  std::string reason;
};

/// INVALID_ARGUMENT for input that does not fit together; RESOURCE_EXHAUSTED
/// if no layout is within the limit, naming the bytes of the smallest, or
/// without memory; CANCELLED, between two batches, when `stop` is requested;
/// errors of the trace. Memory: that of a SegmentPlanner.
absl::StatusOr<LayoutChoice> SearchLayout(const LayoutInput& input,
                                          const LayoutLimits& limits,
                                          const LayoutSearchOptions& options,
                                          const std::stop_token& stop);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_LAYOUT_SEARCH_H_
