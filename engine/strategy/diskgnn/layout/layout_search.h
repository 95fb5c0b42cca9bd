#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_LAYOUT_SEARCH_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_LAYOUT_SEARCH_H_

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/plan/access_trace.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"
#include "engine/strategy/diskgnn/layout/segment_planner.h"

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

/// estimates[i - 1] = about how many bytes a layout takes with segments of i
/// batches and at most `max_cache_rows` rows in the disk cache: lines 1 to 7 of
/// algorithm 2 (DiskGNN, section 5.1), in one walk over the trace. What does
/// not depend on i (samples, tables, images, index) is added as it is.
/// Memory: 4 bytes a node. Errors as SegmentPlanner.
absl::StatusOr<std::vector<uint64_t>> EstimateSpace(
    const LayoutInput& input, int64_t max_cache_rows,
    const std::stop_token& stop);

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
