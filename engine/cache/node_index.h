#ifndef HEARTH_ENGINE_CACHE_NODE_INDEX_H_
#define HEARTH_ENGINE_CACHE_NODE_INDEX_H_

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/store/topology.h"

namespace hearth::cache {

/// Finds the entry of a node in an array of the owner's: a hash table of entry
/// numbers with open addressing and linear probing, at most half full. Each
/// `node_of` is a function that tells the node of an entry. Thread-compatible.
class NodeIndex {
 public:
  static constexpr int32_t kAbsent = -1;

  /// With room for `capacity` entries.
  explicit NodeIndex(int64_t capacity)
      : buckets_(NumBuckets(capacity), kAbsent),
        shift_(64 - std::countr_zero(buckets_.size())) {}

  /// The entry of `node`, or kAbsent.
  template <typename NodeOf>
  int32_t Find(store::NodeId node, NodeOf node_of) const {
    return buckets_[Locate(node, node_of)];
  }

  /// REQUIRES: `node` has no entry; `entry` is its, and there is room.
  template <typename NodeOf>
  void Add(store::NodeId node, int32_t entry, NodeOf node_of) {
    buckets_[Locate(node, node_of)] = entry;
  }

  /// REQUIRES: `node` has an entry.
  template <typename NodeOf>
  void Remove(store::NodeId node, NodeOf node_of) {
    // Moves what follows the gap back where a search would not find it any more
    // (Knuth, The Art of Computer Programming 3, section 6.4, algorithm R).
    const size_t mask = buckets_.size() - 1;
    size_t gap = Locate(node, node_of);
    assert(buckets_[gap] >= 0);
    for (size_t at = (gap + 1) & mask; buckets_[at] >= 0;
         at = (at + 1) & mask) {
      const size_t home = Home(node_of(buckets_[at]));
      // Whether the gap lies on the way from its home to where it is.
      if (((at - home) & mask) < ((at - gap) & mask)) continue;
      buckets_[gap] = buckets_[at];
      gap = at;
    }
    buckets_[gap] = kAbsent;
  }

  /// Forgets all nodes.
  void Clear() { std::fill(buckets_.begin(), buckets_.end(), kAbsent); }

  /// Makes room for `capacity` entries, of which 0 .. count - 1 are there.
  template <typename NodeOf>
  void Grow(int64_t capacity, int32_t count, NodeOf node_of) {
    buckets_.assign(NumBuckets(capacity), kAbsent);
    shift_ = 64 - std::countr_zero(buckets_.size());
    for (int32_t entry = 0; entry < count; ++entry) {
      Add(node_of(entry), entry, node_of);
    }
  }

  /// Entries that there is room for.
  int64_t capacity() const { return static_cast<int64_t>(buckets_.size() / 2); }

  /// Asks the processor for what Find(node) looks at first.
  void Prefetch(store::NodeId node) const {
    __builtin_prefetch(&buckets_[Home(node)]);
  }

  static uint64_t MemoryBytes(int64_t capacity) {
    return NumBuckets(capacity) * sizeof(int32_t);
  }

 private:
  static uint64_t NumBuckets(int64_t capacity) {
    return std::bit_ceil(
        std::max<uint64_t>(2 * static_cast<uint64_t>(capacity), 2));
  }

  size_t Home(store::NodeId node) const {
    // Multiplicative hashing: the golden ratio spreads runs of ids evenly.
    return (static_cast<uint64_t>(node) * 0x9E3779B97F4A7C15) >> shift_;
  }

  // The bucket of `node`, or the empty one where it belongs.
  template <typename NodeOf>
  size_t Locate(store::NodeId node, NodeOf node_of) const {
    size_t at = Home(node);
    while (buckets_[at] >= 0 && node_of(buckets_[at]) != node) {
      at = (at + 1) & (buckets_.size() - 1);
    }
    return at;
  }

  // A power of two.
  std::vector<int32_t> buckets_;
  int shift_;
};

}  // namespace hearth::cache

#endif  // HEARTH_ENGINE_CACHE_NODE_INDEX_H_
