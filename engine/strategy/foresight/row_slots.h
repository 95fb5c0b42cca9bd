#ifndef HEARTH_ENGINE_STRATEGY_FORESIGHT_ROW_SLOTS_H_
#define HEARTH_ENGINE_STRATEGY_FORESIGHT_ROW_SLOTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/cache/assemble.h"
#include "engine/cache/row_memory.h"
#include "engine/plan/optimal_cache.h"
#include "engine/store/feature_rows.h"

/// The rows of a planned cache (RowSlots).

namespace hearth::strategy {

/// Rows in numbered slots, and the node of each. Which rows are where, a plan
/// says (plan::OptimalCache). Single-owner.
class RowSlots {
 public:
  static constexpr uint32_t kFree = plan::CacheSlots::kFree;

  /// A row that belongs into a slot.
  struct Placed {
    uint32_t node = 0;
    uint32_t slot = 0;
  };
  /// Reads the rows of nodes, which ascend, to the memory of their slots.
  using Load = absl::FunctionRef<absl::Status(absl::Span<const Placed> rows)>;

  /// The nodes of all slots that have one, ascending. `nodes`: as nodes().
  static std::vector<Placed> ByNode(absl::Span<const uint32_t> nodes);

  /// Empty slots. RESOURCE_EXHAUSTED without memory.
  static absl::StatusOr<RowSlots> Make(int64_t num_slots,
                                       const store::RowFormat& format);

  /// Bytes of slots and of the numbers of their nodes.
  static uint64_t MemoryBytes(int64_t num_slots, int64_t row_bytes);
  /// Bytes that Arrange takes in addition.
  static uint64_t ArrangingBytes(int64_t num_slots);

  int64_t num_slots() const { return arena_.num_slots(); }
  /// [num_slots()], the node in each slot; kFree if there is none.
  absl::Span<const uint32_t> nodes() const { return nodes_; }
  cache::StoredRows rows() const {
    return {.data = arena_.rows(), .dtype = format_.dtype, .dim = format_.dim};
  }
  /// The bytes of a slot.
  std::byte* row(uint32_t slot) { return arena_.row(slot); }

  /// Copies the stored row of `node` to `slot`.
  void Put(uint32_t node, uint32_t slot, const std::byte* row);

  /// The row of `slot` is no longer wanted; its bytes stay.
  void Drop(uint32_t slot) { nodes_[slot] = kFree; }

  /// Makes slot i hold wanted[i]: moves rows that are in other slots, and calls
  /// `load` once with the others, unless there are none. After an error of
  /// `load` the slots that it was called for are free.
  absl::Status Arrange(absl::Span<const uint32_t> wanted, Load load);

 private:
  RowSlots(cache::SlotArena arena, const store::RowFormat& format);

  void Move(uint32_t from, uint32_t to);

  cache::SlotArena arena_;
  store::RowFormat format_;
  std::vector<uint32_t> nodes_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_FORESIGHT_ROW_SLOTS_H_
