#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_SEGMENT_PLANNER_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_SEGMENT_PLANNER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/aligned_memory.h"
#include "engine/plan/access_trace.h"
#include "engine/store/topology.h"

/// Which rows the memory levels hold (MemoryLevels), which rows of a segment
/// its disk cache holds and in which order (SegmentPlanner, MinHashOrder), and
/// a sort for both.

namespace hearth::strategy {

/// Stable sort of `values` by key(value), which is at least 0. Takes one pass
/// for every 11 bits of the largest key: for node ids a fraction of the time of
/// std::sort. `scratch` is overwritten.
template <typename T, typename Key>
void RadixSort(std::vector<T>& values, std::vector<T>& scratch, Key key) {
  constexpr int kBits = 11;
  constexpr uint64_t kMask = (uint64_t{1} << kBits) - 1;
  uint64_t all = 0;
  for (const T& value : values) all |= static_cast<uint64_t>(key(value));
  scratch.resize(values.size());
  for (int shift = 0; shift < 64 && all >> shift != 0; shift += kBits) {
    const auto digit = [&](const T& value) {
      return (static_cast<uint64_t>(key(value)) >> shift) & kMask;
    };
    // Values with each digit; then the index of the next value with it.
    std::array<size_t, kMask + 1> next = {};
    for (const T& value : values) ++next[digit(value)];
    size_t begin = 0;
    for (size_t& count : next) begin += std::exchange(count, begin);
    for (const T& value : values) scratch[next[digit(value)]++] = value;
    values.swap(scratch);
  }
}

/// The levels of rows (DiskGNN, section 4), the fastest first.
enum class Level : uint8_t { kGpu, kCpu, kDisk, kPack };

/// The upper two levels: the nodes in the GPU cache and in the CPU cache, the
/// most popular ones in the faster. A level never changes. Slots are in the
/// order of the nodes, so that a sequential scan of the features fills them.
/// Memory: 4 bytes a node of the graph, 8 bytes a node held. Thread-safe.
class MemoryLevels {
 public:
  /// Rows of each level at most.
  struct Rows {
    int64_t gpu = 0;
    int64_t cpu = 0;
  };

  /// Chooses the nodes. Among equally popular nodes, smaller numbers come
  /// first; nodes without accesses are never held. INVALID_ARGUMENT for
  /// negative numbers, or more than 2^32 - 2 rows; RESOURCE_EXHAUSTED without
  /// memory.
  static absl::StatusOr<MemoryLevels> Choose(const plan::AccessCounts& counts,
                                             const Rows& rows);

  /// Holds these nodes, each list ascending. INVALID_ARGUMENT if one is not
  /// among 0 .. num_nodes - 1 or comes twice; otherwise errors as Choose.
  static absl::StatusOr<MemoryLevels> Of(
      int64_t num_nodes, absl::Span<const store::NodeId> gpu_nodes,
      absl::Span<const store::NodeId> cpu_nodes);

  int64_t num_nodes() const { return static_cast<int64_t>(codes_.size()); }

  /// Nodes of each level, ascending: slot i holds element i.
  absl::Span<const store::NodeId> gpu_nodes() const { return gpu_nodes_; }
  absl::Span<const store::NodeId> cpu_nodes() const { return cpu_nodes_; }

  bool Holds(store::NodeId node) const { return codes_[node] != 0; }

  /// The node's level, kGpu or kCpu. REQUIRES: Holds(node).
  Level LevelOf(store::NodeId node) const {
    return codes_[node] <= gpu_nodes_.size() ? Level::kGpu : Level::kCpu;
  }

  /// The node's slot in its level. REQUIRES: Holds(node).
  int64_t SlotOf(store::NodeId node) const {
    const int64_t slot = int64_t{codes_[node]} - 1;
    const auto num_gpu = static_cast<int64_t>(gpu_nodes_.size());
    return slot < num_gpu ? slot : slot - num_gpu;
  }

  /// Prefetches the memory that Holds, LevelOf and SlotOf read.
  void Prefetch(store::NodeId node) const { __builtin_prefetch(&codes_[node]); }

 private:
  MemoryLevels() = default;

  // Allocates codes_. REQUIRES: no more nodes than codes.
  absl::Status Allocate(int64_t num_nodes);

  std::vector<store::NodeId> gpu_nodes_;
  std::vector<store::NodeId> cpu_nodes_;
  io::AlignedMemory memory_;
  // [num_nodes]: 0 if not held, else 1 + slot, where the GPU's slots come
  // first.
  absl::Span<uint32_t> codes_;
};

/// How a trace is divided into segments, each with its own part of the disk
/// cache (DiskGNN, section 5.1): segments of `segment_size` batches, the last
/// one with the remainder.
struct Segmentation {
  /// max_rows without a bound.
  static constexpr int64_t kUnbounded = INT64_MAX;

  int64_t num_batches = 0;
  /// At least 1. With 1, no row is needed twice in a segment, so that all rows
  /// are packed.
  int64_t segment_size = 1;
  /// Rows of the disk cache over all segments, at most.
  int64_t max_rows = kUnbounded;
  /// The seed of MinHashOrder.
  uint64_t seed = 0;

  int64_t num_segments() const {
    return num_batches / segment_size + (num_batches % segment_size != 0);
  }
};

/// Batches [begin, end), with at most `max_rows` rows of the disk cache.
struct Segment {
  int64_t index = 0;
  int64_t begin = 0;
  int64_t end = 0;
  int64_t max_rows = Segmentation::kUnbounded;

  int64_t size() const { return end - begin; }
};

/// Segment `index` of 0 .. num_segments() - 1. The bound is divided among the
/// segments in proportion to their batches, without a remainder.
Segment SegmentAt(const Segmentation& segmentation, int64_t index);

/// An order that puts rows needed by the same batches next to each other:
/// MinHash reordering (DiskGNN, section 5.1, algorithm 1). Every batch has a
/// random rank under each of k = 2 permutations; a row's signature is the pair
/// of the least ranks of its batches; rows are sorted by signature, then by
/// number. (The paper prints S(v) as one minimum over all functions, with which
/// more functions would make more collisions; here each function has its own
/// minimum, as in HashOrder, which the paper cites.)
///
/// The result is a pure function of seed, segment and the Add calls. Linear
/// time. Memory: kBytesPerRow a row, 16 bytes a batch. Single-owner; several
/// threads may order segments, each with its own object.
class MinHashOrder {
 public:
  static constexpr int kNumFunctions = 2;
  static constexpr int64_t kBytesPerRow = 16;

  /// For rows 0 .. num_rows - 1 and batches 0 .. num_batches - 1 of segment
  /// `segment`. REQUIRES: both numbers are below 2^32.
  MinHashOrder(int64_t num_rows, int64_t num_batches, uint64_t seed,
               int64_t segment);

  /// Tells that `batch` needs `row`.
  void Add(int64_t batch, uint32_t row) {
    for (int j = 0; j < kNumFunctions; ++j) {
      uint32_t& least = signatures_[j][row];
      const uint32_t rank = ranks_[j][batch];
      if (rank < least) least = rank;
    }
  }

  /// [num_rows] each row's place in the order. Ends the object's use.
  std::vector<uint32_t> Places() &&;

 private:
  // Rank of each batch, by function.
  std::array<std::vector<uint32_t>, kNumFunctions> ranks_;
  // Least rank of each row, by function; the number of batches if none needs
  // the row.
  std::array<std::vector<uint32_t>, kNumFunctions> signatures_;
};

/// Decides, for one segment after the other, which rows go into its disk cache
/// and in which order (DiskGNN, section 5.1). Of the nodes that the memory
/// levels do not hold, V_d, the nodes that at least two batches of the segment
/// need, are cached, and V_p, the others, are packed. If the bound on rows is
/// smaller than V_d, the most popular nodes are cached; among equally popular
/// ones, smaller numbers come first.
///
/// Memory: 4 bytes a node of the graph, and at most kBytesPerRow for each
/// distinct node of the segment. Single-owner; several threads may plan, each
/// with its own planner.
class SegmentPlanner {
 public:
  static constexpr int64_t kBytesPerRow = 56;

  /// `trace` and `levels` outlive the planner. RESOURCE_EXHAUSTED without
  /// memory.
  static absl::StatusOr<std::unique_ptr<SegmentPlanner>> Make(
      plan::AccessTrace& trace, const MemoryLevels& levels);

  /// Chooses the cached nodes of `segment`, which replaces the segment before.
  /// Walks its batches once. INVALID_ARGUMENT, naming the node, for one out of
  /// range; CANCELLED, between two batches, when `stop` is requested; errors of
  /// the trace. After an error the planner must not be used.
  absl::Status Choose(const Segment& segment, const std::stop_token& stop);

  /// Orders the cached nodes by MinHashOrder; walks the batches once. Errors as
  /// Choose. REQUIRES: called once after each Choose.
  absl::Status Order(uint64_t seed, const std::stop_token& stop);

  const MemoryLevels& levels() const { return levels_; }

  /// The nodes in the segment's disk cache, ascending.
  absl::Span<const store::NodeId> cached_nodes() const { return cached_; }

  /// After Order: [i] the row of cached_nodes()[i] in the segment's disk cache.
  absl::Span<const uint32_t> places() const { return places_; }

  /// The level in which a batch of the segment finds a row. REQUIRES: a batch
  /// of the segment needs it.
  Level LevelOf(store::NodeId node) const {
    if (levels_.Holds(node)) return levels_.LevelOf(node);
    return codes_[node] == kPacked ? Level::kPack : Level::kDisk;
  }

  /// The node's row in the segment's disk cache. REQUIRES: LevelOf(node) is
  /// kDisk; after Order.
  int64_t PlaceOf(store::NodeId node) const {
    return places_[codes_[node] - 1];
  }

  /// Rows that the segment packs: each node as often as batches need it.
  int64_t num_packed_rows() const { return num_packed_rows_; }

 private:
  static constexpr uint32_t kPacked = UINT32_MAX;

  SegmentPlanner(plan::AccessTrace& trace, const MemoryLevels& levels,
                 io::AlignedMemory memory);

  absl::Status Count(const std::stop_token& stop);
  // Number of batches that must need a node for it to be cached; of nodes
  // needed by exactly so many, the number to cache.
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
  // [num_nodes]: 0 if the segment does not need the node; while counting, the
  // number of batches that do; then kPacked, or 1 + the index in cached_.
  absl::Span<uint32_t> codes_;
  Segment segment_;
  // Nodes of the segment below the memory levels; ascending after Count.
  std::vector<store::NodeId> nodes_;
  std::vector<store::NodeId> cached_;
  std::vector<uint32_t> places_;
  int64_t num_packed_rows_ = 0;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_SEGMENT_PLANNER_H_
