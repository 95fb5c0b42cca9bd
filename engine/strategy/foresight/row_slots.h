#ifndef HEARTH_ENGINE_STRATEGY_FORESIGHT_ROW_SLOTS_H_
#define HEARTH_ENGINE_STRATEGY_FORESIGHT_ROW_SLOTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/cache/assemble.h"
#include "engine/cache/row_memory.h"
#include "engine/cuda/device.h"
#include "engine/plan/optimal_cache.h"
#include "engine/store/feature_rows.h"
#include "engine/strategy/foresight/gpu_slots.h"

/// The rows of a planned cache (RowSlots).

namespace hearth::strategy {

/// Rows in numbered slots, and the node of each. Which rows are where, a plan
/// says (plan::OptimalCache). The first slots may be in the memory of a GPU,
/// which then reads the others in place. Errors of the functions below are
/// those of the GPU (GpuSlots); after one the slots are to be cleared.
/// Single-owner.
class RowSlots {
 public:
  static constexpr uint32_t kFree = plan::CacheSlots::kFree;

  /// A row that belongs into a slot.
  struct Placed {
    uint32_t node = 0;
    uint32_t slot = 0;
  };
  /// Writes the rows of nodes, which ascend, to their slots.
  using Load = absl::FunctionRef<absl::Status(absl::Span<const Placed> rows)>;

  /// The nodes of all slots that have one, ascending. `nodes`: as nodes().
  static std::vector<Placed> ByNode(absl::Span<const uint32_t> nodes);

  /// Empty slots, those of `gpu` first; null: all are in host memory.
  /// RESOURCE_EXHAUSTED without memory; errors of cuda::Registration.
  static absl::StatusOr<RowSlots> Make(int64_t num_slots,
                                       const store::RowFormat& format,
                                       std::unique_ptr<GpuSlots> gpu = nullptr);

  /// Bytes of slots in host memory and of the numbers of their nodes.
  static uint64_t MemoryBytes(int64_t num_slots, int64_t row_bytes);
  /// Bytes that Arrange takes in addition.
  static uint64_t ArrangingBytes(int64_t num_slots);

  int64_t num_slots() const { return std::ssize(nodes_); }
  /// The slots on a GPU; null if there are none.
  GpuSlots* gpu() { return gpu_.get(); }
  /// The first slot in host memory.
  uint32_t first_on_host() const {
    return gpu_ == nullptr ? 0 : static_cast<uint32_t>(gpu_->num_slots());
  }
  /// [num_slots()], the node in each slot; kFree if there is none.
  absl::Span<const uint32_t> nodes() const { return nodes_; }
  /// The rows of the slots in host memory.
  cache::StoredRows host_rows() const {
    return {.data = arena_.rows(), .dtype = format_.dtype, .dim = format_.dim};
  }

  /// Copies a stored row to `slot`, or from it; on a GPU at the next Flush, or
  /// before. REQUIRES: as GpuSlots::Write and Read.
  absl::Status Write(uint32_t slot, const std::byte* row);
  absl::Status Read(uint32_t slot, std::byte* row);
  /// Does what the last Write and Read have left.
  absl::Status Flush();

  /// `slot` has the row of `node` from now on.
  void Name(uint32_t slot, uint32_t node) { nodes_[slot] = node; }

  /// The row of `slot` is no longer wanted; its bytes stay.
  void Drop(uint32_t slot) { nodes_[slot] = kFree; }

  /// All slots are free.
  void Clear() { std::fill(nodes_.begin(), nodes_.end(), kFree); }

  /// Makes slot i hold wanted[i]: moves rows that are in other slots, and calls
  /// `load` once with the others, unless there are none. After an error of
  /// `load` the slots that it was called for are free.
  absl::Status Arrange(absl::Span<const uint32_t> wanted, Load load);

 private:
  RowSlots(cache::SlotArena arena, const store::RowFormat& format,
           std::unique_ptr<GpuSlots> gpu, cuda::Registration pinned,
           int64_t num_slots);

  std::byte* host_row(uint32_t slot) {
    return arena_.row(slot - first_on_host());
  }
  absl::Status Move(uint32_t from, uint32_t to);

  // The slots in host memory.
  cache::SlotArena arena_;
  cuda::Registration pinned_;
  store::RowFormat format_;
  // Destroyed before the memory that its work reads.
  std::unique_ptr<GpuSlots> gpu_;
  std::vector<uint32_t> nodes_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_FORESIGHT_ROW_SLOTS_H_
