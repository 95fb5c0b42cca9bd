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

namespace hearth::strategy {

/// Sorts `values` by key(value), at least 0; those of equal keys keep their
/// order. Takes as many passes as the largest key has groups of 11 bits: for
/// numbers of nodes a fraction of the time of std::sort. `scratch` gets their
/// size and any contents.
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
    // How many have a digit; then, where the next one of them goes.
    std::array<size_t, kMask + 1> next = {};
    for (const T& value : values) ++next[digit(value)];
    size_t begin = 0;
    for (size_t& count : next) begin += std::exchange(count, begin);
    for (const T& value : values) scratch[next[digit(value)]++] = value;
    values.swap(scratch);
  }
}

/// Where a batch finds a row (DiskGNN, section 4), fastest first.
enum class Level : uint8_t { kGpu, kCpu, kDisk, kPack };

/// The upper two of the four levels: which nodes the GPU cache and the CPU
/// cache hold, the most popular ones in the faster. They hold them for good, in
/// slots in the order of the nodes, so that a sequential scan of the features
/// fills them. Memory: 4 bytes a node of the graph, 8 one held. Thread-safe.
class MemoryLevels {
 public:
  /// How many rows each holds at most.
  struct Rows {
    int64_t gpu = 0;
    int64_t cpu = 0;
  };

  /// Equally popular nodes are held in the order of their numbers; nodes
  /// without accesses never are. INVALID_ARGUMENT for negative numbers, or more
  /// than 2^32 - 2 rows to hold; RESOURCE_EXHAUSTED without memory.
  static absl::StatusOr<MemoryLevels> Choose(const plan::AccessCounts& counts,
                                             const Rows& rows);

  int64_t num_nodes() const { return static_cast<int64_t>(codes_.size()); }

  /// Ascending: slot i holds node i of them.
  absl::Span<const store::NodeId> gpu_nodes() const { return gpu_nodes_; }
  absl::Span<const store::NodeId> cpu_nodes() const { return cpu_nodes_; }

  bool Holds(store::NodeId node) const { return codes_[node] != 0; }

  /// kGpu or kCpu. REQUIRES: Holds(node).
  Level LevelOf(store::NodeId node) const {
    return codes_[node] <= gpu_nodes_.size() ? Level::kGpu : Level::kCpu;
  }

  /// In its level. REQUIRES: Holds(node).
  int64_t SlotOf(store::NodeId node) const {
    const int64_t slot = int64_t{codes_[node]} - 1;
    const auto num_gpu = static_cast<int64_t>(gpu_nodes_.size());
    return slot < num_gpu ? slot : slot - num_gpu;
  }

  /// Asks the processor for what the functions above touch.
  void Prefetch(store::NodeId node) const { __builtin_prefetch(&codes_[node]); }

 private:
  MemoryLevels() = default;

  std::vector<store::NodeId> gpu_nodes_;
  std::vector<store::NodeId> cpu_nodes_;
  io::AlignedMemory memory_;
  // [num_nodes]: 0 if not held, else 1 + slot, those of the GPU first.
  absl::Span<uint32_t> codes_;
};

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

/// An order in which rows that the same batches need are neighbors: MinHash
/// reordering (DiskGNN, section 5.1, algorithm 1). Every batch has a random
/// rank under each of k = 2 permutations; a row's signature is the pair of the
/// least ranks of its batches; rows are sorted by it, equal ones by number.
/// (The paper's S(v) is one minimum over all functions as it is printed, under
/// which more functions would make more collisions; as in HashOrder, which it
/// cites, each function has its own.)
///
/// The result is a pure function of seed, segment and who needs what. Linear.
/// Memory: kBytesPerRow a row, 16 bytes a batch. Single-owner; segments can be
/// ordered by several threads, each with its own.
class MinHashOrder {
 public:
  static constexpr int kNumFunctions = 2;
  static constexpr int64_t kBytesPerRow = 16;

  /// For rows 0 .. num_rows - 1 and batches 0 .. num_batches - 1 of segment
  /// `segment`. REQUIRES: both numbers are below 2^32.
  MinHashOrder(int64_t num_rows, int64_t num_batches, uint64_t seed,
               int64_t segment);

  /// `batch` needs `row`.
  void Add(int64_t batch, uint32_t row) {
    for (int j = 0; j < kNumFunctions; ++j) {
      uint32_t& least = signatures_[j][row];
      const uint32_t rank = ranks_[j][batch];
      if (rank < least) least = rank;
    }
  }

  /// places[row] = where the row stands in the order. Ends the object's use.
  std::vector<uint32_t> Places() &&;

 private:
  // The rank of each batch under each function.
  std::array<std::vector<uint32_t>, kNumFunctions> ranks_;
  // The least rank of each row; the number of batches if none needs it.
  std::array<std::vector<uint32_t>, kNumFunctions> signatures_;
};

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
