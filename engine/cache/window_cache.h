#ifndef HEARTH_ENGINE_CACHE_WINDOW_CACHE_H_
#define HEARTH_ENGINE_CACHE_WINDOW_CACHE_H_

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "engine/base/random.h"
#include "engine/cache/node_index.h"
#include "engine/store/topology.h"

namespace hearth::cache {

/// A set of nodes that numbers its members: a bit for each node, and for every
/// 448 nodes the number of members before them, so that a lookup takes one
/// cache line and a node of the graph 1/7 byte. Immutable; thread-safe.
class RowSet {
 public:
  static constexpr int64_t kAbsent = -1;

  /// The empty set.
  RowSet() = default;

  /// REQUIRES: `members` ascend, without duplicates, within 0 .. num_nodes - 1.
  RowSet(int64_t num_nodes, absl::Span<const store::NodeId> members);

  /// Number of members.
  int64_t size() const { return size_; }

  /// Index of `node` among the members in ascending order, or kAbsent.
  int64_t Find(store::NodeId node) const {
    if (blocks_.empty()) return kAbsent;
    const Block& block = blocks_[node / kNodesPerBlock];
    const auto bit = static_cast<size_t>(node % kNodesPerBlock);
    const uint64_t word = block.bits[bit / 64];
    if ((word >> (bit % 64) & 1) == 0) return kAbsent;
    int64_t place = block.before;
    for (size_t i = 0; i < bit / 64; ++i) place += std::popcount(block.bits[i]);
    return place + std::popcount(word & ((uint64_t{1} << (bit % 64)) - 1));
  }

  /// Prefetches the memory that Find(node) reads.
  void Prefetch(store::NodeId node) const {
    if (!blocks_.empty()) __builtin_prefetch(&blocks_[node / kNodesPerBlock]);
  }

  static uint64_t MemoryBytes(int64_t num_nodes);

 private:
  static constexpr int64_t kNodesPerBlock = 7 * 64;

  struct alignas(64) Block {
    int64_t before = 0;
    std::array<uint64_t, 7> bits = {};
  };

  std::vector<Block> blocks_;
  int64_t size_ = 0;
};

/// The bookkeeping of GIDS's cache (section 3.4): which row is in each line,
/// and how many batches of the window need it. A row that a batch of the window
/// needs stays; of the other rows, one drawn at random makes room. Knows no
/// bytes.
///
/// A node's entry (`uses` counts the batches that need it and are in the
/// window):
///
///   absent    Enter                    -> uses 1, without a line
///   uses > 0  Enter                    -> uses + 1
///             Locate, without a line   -> gets the first of: a line that was
///                                         never used, the line of a random
///                                         safe entry (which goes), no line
///             Leave                    -> uses - 1; at 0: safe to evict
///                                         with a line, else absent
///   safe      Enter                    -> uses 1: not safe any more
///
/// Equal calls with equal random numbers give equal lines. Single-owner.
class WindowCache {
 public:
  static constexpr int32_t kNoLine = -1;

  /// Number of a node's entry, valid from Enter to Leave.
  using Entry = int32_t;

  /// All lines are free. REQUIRES: 0 <= num_lines <= INT32_MAX.
  explicit WindowCache(int64_t num_lines);
  WindowCache(const WindowCache&) = delete;
  WindowCache& operator=(const WindowCache&) = delete;

  /// A batch that needs `nodes`, which are distinct, enters the window.
  /// Replaces `entries` by the entries of the nodes.
  void Enter(absl::Span<const store::NodeId> nodes,
             std::vector<Entry>& entries);

  struct Place {
    /// kNoLine if all lines hold rows that the window needs.
    int32_t line = kNoLine;
    /// Whether the line holds the row already; if not, the caller puts it
    /// there.
    bool is_hit = false;
  };

  /// The line for the row of an entry.
  Place Locate(Entry entry, RandomStream& random);

  /// The batch of these entries leaves the window.
  void Leave(absl::Span<const Entry> entries);

  /// Forgets all rows and batches: all lines are free.
  void Clear();

  int64_t num_lines() const { return num_lines_; }
  /// Lines with rows.
  int64_t num_used() const { return num_used_; }
  /// Lines with rows that no batch of the window needs.
  int64_t num_safe() const { return static_cast<int64_t>(safe_.size()); }

  /// Bytes for `num_lines` lines and batches of `window_nodes` nodes in all in
  /// the window.
  static uint64_t MemoryBytes(int64_t num_lines, int64_t window_nodes);

 private:
  struct Record {
    store::NodeId node = 0;
    uint32_t uses = 0;
    int32_t line = kNoLine;
    // Index in safe_, while the entry is safe.
    int32_t safe_index = 0;
  };

  // Function from an entry to its node.
  auto NodeOf() const {
    return [this](Entry entry) {
      return records_[static_cast<size_t>(entry)].node;
    };
  }

  Entry FindOrAdd(store::NodeId node);
  void Remove(Entry entry);
  void AddSafe(Entry entry);
  void RemoveSafe(Entry entry);

  const int64_t num_lines_;
  // Lines 0 .. num_used_ - 1 are in use.
  int64_t num_used_ = 0;
  std::vector<Record> records_;
  // Entries without a node.
  std::vector<Entry> free_;
  NodeIndex index_;
  std::vector<Entry> safe_;
};

}  // namespace hearth::cache

#endif  // HEARTH_ENGINE_CACHE_WINDOW_CACHE_H_
