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

/// The choice of a layout (SearchLayout), and its parts: exact sizes
/// (MeasureLayout), estimates of reads and of space.

namespace hearth::strategy {

/// The trace, levels and sizes that a layout is made for. All outlive every
/// use.
struct LayoutInput {
  plan::AccessTrace* trace = nullptr;
  const MemoryLevels* levels = nullptr;
  int64_t row_bytes = 0;
  /// [num_batches] bytes of the encoded graph samples.
  absl::Span<const uint64_t> sample_bytes;
};

/// The exact layout under `segmentation`, without checksums. Sizes depend on
/// counts alone, so that nothing is reordered. Walks the trace twice. Memory:
/// that of a SegmentPlanner. INVALID_ARGUMENT for inconsistent input; other
/// errors as SegmentPlanner.
absl::StatusOr<PackedLayout> MeasureLayout(const LayoutInput& input,
                                           const Segmentation& segmentation,
                                           const std::stop_token& stop);

/// INVALID_ARGUMENT unless input and segmentation are consistent.
absl::Status CheckLayoutInput(const LayoutInput& input,
                              const Segmentation& segmentation);

/// The rows of a batch with these input nodes by level, in the planner's chosen
/// segment.
LevelCounts CountLevels(const SegmentPlanner& planner,
                        absl::Span<const store::NodeId> nodes);

/// The number of pages that hold `rows` (ascending) of `row_bytes` each: the
/// pages read when all requests to one page are merged (DiskGNN, section 4).
int64_t CountPages(absl::Span<const int64_t> rows, int64_t row_bytes);

/// Estimates the bytes that all batches read of packed rows and of the disk
/// cache: counts them in segments spread evenly over the trace, with about
/// `max_batches` batches, and scales up. Exact if these are all batches.
/// `planner` is of the input's trace and levels; its chosen segment is
/// replaced. Errors as SegmentPlanner.
absl::StatusOr<uint64_t> EstimateReadBytes(const LayoutInput& input,
                                           const Segmentation& segmentation,
                                           int64_t max_batches,
                                           SegmentPlanner& planner,
                                           const std::stop_token& stop);

/// Element i - 1 estimates the bytes of a layout with segments of i batches and
/// at most `max_cache_rows` rows in the disk cache: lines 1 to 7 of algorithm 2
/// (DiskGNN, section 5.1), in one walk over the trace. Bytes that do not depend
/// on i (samples, tables, images, index) are added exactly. Memory: 4 bytes a
/// node. Errors as SegmentPlanner.
absl::StatusOr<std::vector<uint64_t>> EstimateSpace(
    const LayoutInput& input, int64_t max_cache_rows,
    const std::stop_token& stop);

/// The choice of the segment size of the disk cache: the one-dimensional
/// approximate search of DiskGNN (section 5.1, algorithm 2).
///
/// One walk over the trace estimates the space of every segment size i from the
/// first i batches: (|V_d| + |V_p|) rows for each of n / i segments. Larger
/// segments take less space but more reads. The estimates lead to the smallest
/// size whose exact space is within the limit. This size and some larger ones
/// are tried: a sample of segments is reordered (algorithm 1), and the bytes
/// that the sampled batches read are counted, with requests to one page of the
/// disk cache merged. The size that reads the least is taken.

struct LayoutLimits {
  /// Bytes of the whole plan on disk, at most.
  uint64_t disk_bytes = UINT64_MAX;
  /// Bytes of the plan that are not part of the layout.
  uint64_t other_bytes = 0;
  /// Rows of the disk cache over all segments, at most; with 0 all rows are
  /// packed.
  int64_t max_cache_rows = Segmentation::kUnbounded;
};

struct LayoutSearchOptions {
  uint64_t seed = 0;
  /// Segment sizes that are tried, at most; at least 1.
  int64_t max_tried = 5;
  /// Batches whose reads are counted for each tried size; at least 1.
  int64_t max_sampled_batches = 512;
};

/// The figures of one segment size.
struct LayoutCandidate {
  int64_t segment_size = 0;
  /// Space by algorithm 2.
  uint64_t estimated_bytes = 0;
  /// Bytes that all batches read of packed rows and of pages of the disk cache,
  /// if the size was tried.
  std::optional<uint64_t> estimated_read_bytes = std::nullopt;
  /// Space of the exact layout, if it was measured.
  std::optional<uint64_t> exact_bytes = std::nullopt;
};

struct LayoutChoice {
  Segmentation segmentation;
  PackedLayout layout;
  /// All sizes that were tried or measured, ascending.
  std::vector<LayoutCandidate> candidates;
  /// Segment sizes that were tried.
  int64_t num_tried = 0;
  /// For people: the choice and its reason.
  std::string reason;
};

/// Chooses the layout. INVALID_ARGUMENT for inconsistent input;
/// RESOURCE_EXHAUSTED if no layout is within the limit, naming the bytes of the
/// smallest, or without memory; CANCELLED, between two batches, when `stop` is
/// requested; errors of the trace. Memory: that of a SegmentPlanner.
absl::StatusOr<LayoutChoice> SearchLayout(const LayoutInput& input,
                                          const LayoutLimits& limits,
                                          const LayoutSearchOptions& options,
                                          const std::stop_token& stop);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_LAYOUT_SEARCH_H_
