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

/// Finds the entry of a node in an array of its owner: a hash table of entry
/// numbers with open addressing and linear probing, at most half full. Each
/// `node_of` is a function from an entry to its node. Thread-compatible.
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

  /// Adds `entry` for `node`. REQUIRES: `node` has no entry; fewer than
  /// capacity() entries.
  template <typename NodeOf>
  void Add(store::NodeId node, int32_t entry, NodeOf node_of) {
    buckets_[Locate(node, node_of)] = entry;
  }

  /// Removes the entry of `node`. REQUIRES: `node` has an entry.
  template <typename NodeOf>
  void Remove(store::NodeId node, NodeOf node_of) {
    // Moves entries after the gap back where a search would not find them any
    // more (Knuth, The Art of Computer Programming 3, section 6.4, algorithm
    // R).
    const size_t mask = buckets_.size() - 1;
    size_t gap = Locate(node, node_of);
    assert(buckets_[gap] >= 0);
    for (size_t at = (gap + 1) & mask; buckets_[at] >= 0;
         at = (at + 1) & mask) {
      const size_t home = Home(node_of(buckets_[at]));
      // Entries whose home lies behind the gap stay.
      if (((at - home) & mask) < ((at - gap) & mask)) continue;
      buckets_[gap] = buckets_[at];
      gap = at;
    }
    buckets_[gap] = kAbsent;
  }

  /// Forgets all nodes.
  void Clear() { std::fill(buckets_.begin(), buckets_.end(), kAbsent); }

  /// Makes room for `capacity` entries; entries 0 .. count - 1 exist.
  template <typename NodeOf>
  void Grow(int64_t capacity, int32_t count, NodeOf node_of) {
    buckets_.assign(NumBuckets(capacity), kAbsent);
    shift_ = 64 - std::countr_zero(buckets_.size());
    for (int32_t entry = 0; entry < count; ++entry) {
      Add(node_of(entry), entry, node_of);
    }
  }

  /// The most entries without Grow.
  int64_t capacity() const { return static_cast<int64_t>(buckets_.size() / 2); }

  /// Prefetches the memory that Find(node) reads first.
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

  // The bucket of `node`, or the empty bucket where it belongs.
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
