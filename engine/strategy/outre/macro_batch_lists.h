#ifndef HEARTH_ENGINE_STRATEGY_OUTRE_MACRO_BATCH_LISTS_H_
#define HEARTH_ENGINE_STRATEGY_OUTRE_MACRO_BATCH_LISTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/plan/partition/partition.h"
#include "engine/sample/neighbor_lists.h"
#include "engine/store/topology.h"

namespace hearth::strategy {

/// The neighbor lists of all nodes of some parts, found by a hash table with
/// open addressing and linear probing. Immutable; thread-safe.
class MacroBatchLists final : public sample::NeighborLists {
 public:
  /// Reads `parts`, distinct ones of `partition`, one after the other. Errors
  /// as Partition::ReadPart.
  static absl::StatusOr<std::unique_ptr<const MacroBatchLists>> Read(
      const plan::Partition& partition, absl::Span<const uint16_t> parts);

  /// Memory of the lists of `parts`: the same as memory_bytes() of what Read
  /// gives.
  static uint64_t MemoryBytes(const plan::Partition& partition,
                              absl::Span<const uint16_t> parts);

  std::optional<sample::NeighborList> Find(store::NodeId node) const override;

  void Prefetch(store::NodeId node) const override {
    __builtin_prefetch(&slots_[Home(node)]);
  }

  uint64_t memory_bytes() const;

 private:
  static constexpr store::NodeId kNone = -1;

  struct Slot {
    store::NodeId node = kNone;
    // The first neighbor.
    const void* list = nullptr;
  };

  explicit MacroBatchLists(int64_t num_nodes);

  static size_t NumSlots(int64_t num_nodes);
  void Add(plan::PartLists part);
  void Add(store::NodeId node, const void* list);

  // Multiplicative hashing: the golden ratio spreads runs of ids evenly.
  size_t Home(store::NodeId node) const {
    return (static_cast<uint64_t>(node) * 0x9E3779B97F4A7C15) >> shift_;
  }

  // A power of two, at least a quarter of them unused.
  std::vector<Slot> slots_;
  // 64 - log2(slots_.size()).
  int shift_;
  // Neighbors have 8 bytes, not 4.
  bool wide_ = false;
  std::vector<plan::PartLists> parts_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_OUTRE_MACRO_BATCH_LISTS_H_
