#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_MEMORY_LEVELS_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_MEMORY_LEVELS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/aligned_memory.h"
#include "engine/plan/access_counts.h"
#include "engine/store/topology.h"

namespace hearth::strategy {

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

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_MEMORY_LEVELS_H_
