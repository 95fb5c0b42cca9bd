#ifndef HEARTH_ENGINE_SAMPLE_NODE_TABLE_H_
#define HEARTH_ENGINE_SAMPLE_NODE_TABLE_H_

#include <cstdint>
#include <vector>

#include "engine/store/topology.h"

namespace hearth::sample {

/// The position of each node met in a batch: a hash table with open addressing
/// and linear probing, as large as the largest batch so far asked for, whatever
/// the size of the graph. Emptied in constant time. Single-owner.
class NodeTable {
 public:
  NodeTable();

  /// Memory of a table, at most, that has met `num_nodes` nodes, and while it
  /// grew: a quarter to a half of its slots are in use.
  static uint64_t MemoryBytes(int64_t num_nodes);

  /// Forgets all nodes; keeps the memory.
  void Clear();

  /// The position of `node`; if it is new, `position`, from now on.
  int32_t FindOrAdd(store::NodeId node, int32_t position) {
    if (2 * (size_ + 1) > slots_.size()) Grow();
    for (size_t at = Home(node);; at = (at + 1) & (slots_.size() - 1)) {
      Slot& slot = slots_[at];
      if (slot.generation != generation_) {
        slot = {.node = node, .position = position, .generation = generation_};
        ++size_;
        return position;
      }
      if (slot.node == node) return slot.position;
    }
  }

  /// Asks the processor for what FindOrAdd(node) will look at first.
  void Prefetch(store::NodeId node) const {
    __builtin_prefetch(&slots_[Home(node)], /*rw=*/1);
  }

 private:
  struct Slot {
    store::NodeId node = 0;
    int32_t position = 0;
    // The slot is taken if this is the table's generation.
    uint32_t generation = 0;
  };

  // Multiplicative hashing: the golden ratio spreads runs of ids evenly.
  size_t Home(store::NodeId node) const {
    return (static_cast<uint64_t>(node) * 0x9E3779B97F4A7C15) >> shift_;
  }

  void Grow();

  // A power of two.
  std::vector<Slot> slots_;
  // 64 - log2(slots_.size()).
  int shift_;
  size_t size_ = 0;
  uint32_t generation_ = 1;
};

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_NODE_TABLE_H_
