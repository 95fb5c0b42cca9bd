#ifndef HEARTH_ENGINE_STRATEGY_GIDS_CONSTANT_BUFFER_H_
#define HEARTH_ENGINE_STRATEGY_GIDS_CONSTANT_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/cache/row_set.h"
#include "engine/cache/slot_arena.h"
#include "engine/cuda/device.h"
#include "engine/cuda/memory.h"
#include "engine/io/read_queues.h"
#include "engine/io/row_stream.h"
#include "engine/store/dataset.h"
#include "engine/store/topology.h"

namespace hearth::strategy {

/// Rows that stay in memory as long as a strategy has them (GIDS, section 3.3),
/// as stored, in the order of their nodes. Immutable once loaded; movable.
class ConstantBuffer {
 public:
  /// Without rows.
  ConstantBuffer() = default;

  /// Reads the rows of `nodes`, which ascend; a null `check` checks none. Adds
  /// what that took to `tally`. Pins the rows for `gpu`, which then reads them
  /// as they are; null: none does. RESOURCE_EXHAUSTED without memory;
  /// CANCELLED when a stop is requested; errors of reading, and of
  /// cuda::Registration.
  static absl::StatusOr<ConstantBuffer> Load(
      const store::StoredFeatures& features, const io::RowCheck* check,
      absl::Span<const store::NodeId> nodes, io::ReadQueues& queues,
      const Clock& clock, const cuda::Device* gpu, std::stop_token stop,
      io::ReadTally& tally);

  /// Which nodes' rows are there; their place is that of the row.
  const cache::RowSet& nodes() const { return nodes_; }

  /// The row at place 0; null without rows.
  const std::byte* rows() const {
    return rows_ != nullptr ? rows_->arena.rows() : nullptr;
  }

  /// Memory for `num_rows` rows of a graph of `num_nodes` nodes.
  static uint64_t MemoryBytes(int64_t num_rows, int64_t row_bytes,
                              int64_t num_nodes);

  /// Rows that fit, with the set, into `budget_bytes`; no more than there are
  /// nodes.
  static int64_t Capacity(uint64_t budget_bytes, int64_t row_bytes,
                          int64_t num_nodes);

 private:
  struct Rows {
    cache::SlotArena arena;
    // Ends before the arena.
    cuda::Registration pinned = {};
  };

  cache::RowSet nodes_;
  std::unique_ptr<Rows> rows_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_GIDS_CONSTANT_BUFFER_H_
