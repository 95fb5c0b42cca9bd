#ifndef HEARTH_ENGINE_CACHE_DIRECT_CACHE_H_
#define HEARTH_ENGINE_CACHE_DIRECT_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/thread_team.h"
#include "engine/cache/row_memory.h"
#include "engine/io/aligned_memory.h"
#include "engine/store/feature_rows.h"
#include "engine/store/topology.h"

namespace hearth::cache {

/// Rows in slots, and a table with the slot of every node (Ginex, section 3.3:
/// address_table and cache array). The caller decides which rows are inside.
/// The table changes apart from the rows, so that one thread may update the
/// table while another still moves rows. The table has one owner, and so has
/// each slot. Movable.
class DirectCache {
 public:
  /// The slot of a node that is not inside.
  static constexpr int64_t kAbsent = -1;

  /// Number of rows that fit into `budget_bytes` together with the table of 8
  /// bytes a node; at most num_nodes.
  static int64_t Capacity(uint64_t budget_bytes, int64_t num_nodes,
                          int64_t row_bytes);

  /// An empty cache. RESOURCE_EXHAUSTED if there is no memory. With a capacity
  /// of 0 there is no table.
  static absl::StatusOr<DirectCache> Make(int64_t num_nodes, int64_t capacity,
                                          const store::RowFormat& format);

  const store::RowFormat& format() const { return format_; }
  int64_t capacity() const { return arena_.num_slots(); }

  int64_t Find(store::NodeId node) const {
    return table_.empty() ? kAbsent : table_[node];
  }

  /// Prefetches the memory that Find(node) reads.
  void Prefetch(store::NodeId node) const {
    if (!table_.empty()) __builtin_prefetch(&table_[node]);
  }

  /// Gives node nodes[i] slot i. REQUIRES: the cache is empty; at most
  /// capacity() distinct nodes.
  void Fill(absl::Span<const store::NodeId> nodes);

  /// Gives the slot of out[i] to in[i], and stores it in slots[i]. REQUIRES:
  /// all of `out` and none of `in` are inside; equal lengths.
  void Replace(absl::Span<const store::NodeId> in,
               absl::Span<const store::NodeId> out,
               std::vector<int64_t>& slots);

  /// The row_bytes() bytes of a slot.
  std::byte* row(int64_t slot) { return arena_.row(slot); }

  /// Row positions[i] of `out`, which is [.., dim], = the row in slots[i],
  /// widened to float32, by a team. REQUIRES: as many slots as positions.
  void Scatter(ThreadTeam& team, absl::Span<const int64_t> slots,
               absl::Span<const int32_t> positions, float* out) const;

 private:
  DirectCache(const store::RowFormat& format, SlotArena arena,
              io::AlignedMemory table_memory);

  store::RowFormat format_;
  SlotArena arena_;
  io::AlignedMemory table_memory_;
  // [num_nodes], or empty.
  absl::Span<int64_t> table_;
};

}  // namespace hearth::cache

#endif  // HEARTH_ENGINE_CACHE_DIRECT_CACHE_H_
