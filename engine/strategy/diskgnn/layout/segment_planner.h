#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_SEGMENT_PLANNER_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_SEGMENT_PLANNER_H_

#include <cstdint>
#include <memory>
#include <stop_token>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/aligned_memory.h"
#include "engine/plan/access_trace.h"
#include "engine/store/topology.h"
#include "engine/strategy/diskgnn/layout/memory_levels.h"
#include "engine/strategy/diskgnn/layout/segmentation.h"

namespace hearth::strategy {

/// Decides, for one segment after the other, which rows go into its disk cache
/// and in which order (DiskGNN, section 5.1). Accesses are counted over the
/// segment's batches; nodes that the memory levels hold are left out; of the
/// others, V_d, those that at least two batches need, are cached, and V_p are
/// packed. Where the bound on rows is smaller than V_d, the most popular are
/// cached, of equally popular ones those of smaller number.
///
/// Memory: 4 bytes a node of the graph, and at most kBytesPerRow for each
/// distinct node of the segment. Single-owner; several threads can plan, each
/// with its own.
class SegmentPlanner {
 public:
  static constexpr int64_t kBytesPerRow = 56;

  /// `trace` and `levels` outlive the planner. RESOURCE_EXHAUSTED without
  /// memory.
  static absl::StatusOr<std::unique_ptr<SegmentPlanner>> Make(
      plan::AccessTrace& trace, const MemoryLevels& levels);

  /// Chooses what `segment` caches; it replaces the one before. Walks its
  /// batches once. INVALID_ARGUMENT, naming it, for a node out of range;
  /// CANCELLED, between two batches, when `stop` is requested; errors of the
  /// trace. After an error the planner must not be used.
  absl::Status Choose(const Segment& segment, const std::stop_token& stop);

  /// Orders what is cached by MinHash; walks the batches once. Errors as
  /// Choose. REQUIRES: chosen, not ordered.
  absl::Status Order(uint64_t seed, const std::stop_token& stop);

  const MemoryLevels& levels() const { return levels_; }

  /// The nodes in the segment's disk cache, ascending.
  absl::Span<const store::NodeId> cached_nodes() const { return cached_; }

  /// Once ordered: the row of cached_nodes()[i] in the segment's disk cache.
  absl::Span<const uint32_t> places() const { return places_; }

  /// Where a batch of the segment finds a row. REQUIRES: one of them needs it.
  Level LevelOf(store::NodeId node) const {
    if (levels_.Holds(node)) return levels_.LevelOf(node);
    return codes_[node] == kPacked ? Level::kPack : Level::kDisk;
  }

  /// REQUIRES: LevelOf(node) is kDisk; ordered.
  int64_t PlaceOf(store::NodeId node) const {
    return places_[codes_[node] - 1];
  }

  /// Rows that the segment packs: a node's as often as batches need it.
  int64_t num_packed_rows() const { return num_packed_rows_; }

 private:
  static constexpr uint32_t kPacked = UINT32_MAX;

  SegmentPlanner(plan::AccessTrace& trace, const MemoryLevels& levels,
                 io::AlignedMemory memory);

  absl::Status Count(const std::stop_token& stop);
  // How often a node must be needed to be cached, and how many of those needed
  // just so often are.
  struct Threshold {
    uint32_t count = 2;
    int64_t num_at_count = INT64_MAX;
  };
  Threshold FindThreshold() const;
  void Separate(Threshold threshold);
  void Forget();

  plan::AccessTrace& trace_;
  const MemoryLevels& levels_;
  io::AlignedMemory memory_;
  // [num_nodes]: 0 if the segment does not need it; while counting, how many
  // batches do; then kPacked, or 1 + its index in cached_.
  absl::Span<uint32_t> codes_;
  Segment segment_;
  // All nodes below the memory levels; ascending once they are counted.
  std::vector<store::NodeId> nodes_;
  std::vector<store::NodeId> cached_;
  std::vector<uint32_t> places_;
  int64_t num_packed_rows_ = 0;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_SEGMENT_PLANNER_H_
