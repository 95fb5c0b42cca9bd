#ifndef HEARTH_ENGINE_STRATEGY_MARIUS_PARTITION_BUFFER_H_
#define HEARTH_ENGINE_STRATEGY_MARIUS_PARTITION_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/cache/row_memory.h"
#include "engine/io/aligned_memory.h"
#include "engine/store/dataset.h"
#include "engine/store/topology.h"
#include "engine/strategy/marius/buffer_plan.h"

/// The graph that is in memory: the rows of some partitions and of some kept
/// nodes (PartitionBuffer), and the edges between these nodes (NewSubgraph).

namespace hearth::strategy {

/// Reads of partitions.
struct LoadTally {
  int64_t partitions = 0;
  int64_t bytes = 0;
  int64_t reads = 0;

  LoadTally& operator+=(const LoadTally& other) {
    partitions += other.partitions;
    bytes += other.bytes;
    reads += other.reads;
    return *this;
  }
};

/// Rows in memory: whole partitions in slots, and kept nodes. Partitions are
/// read from one end to the other, in requests of up to 8 MiB at page
/// boundaries, against the blocks' checksums. A slot keeps its partition until
/// another one needs it. Single-owner, but for LoadAhead; and rows() and
/// row_of() may be read by any thread while nothing but LoadAhead goes on.
class PartitionBuffer {
 public:
  /// `features` and `partitions` outlive the buffer, which has no slots yet.
  /// Without a file of features it has no rows, and tallies what it would read,
  /// for forecasts.
  PartitionBuffer(const store::ScannedFeatures& features,
                  const NodePartitions& partitions)
      : features_(features), partitions_(partitions) {}

  /// Gives the buffer room for `num_slots` partitions and `most_kept` nodes;
  /// drops everything if it has another size. RESOURCE_EXHAUSTED without
  /// memory.
  absl::Status Resize(int32_t num_slots, int64_t most_kept);

  /// Brings exactly the partitions and kept nodes of `state` into reach of
  /// row_of, reading what is not in memory. Kept nodes that are not in memory
  /// cost a read of their partitions. Errors of reading, DATA_LOSS among them;
  /// CANCELLED within a few MiB of a stop; nothing is in reach then. REQUIRES:
  /// room for them (Resize).
  absl::Status Enter(const BufferState& state, const std::stop_token& stop,
                     LoadTally& tally);

  /// Reads partitions of `next` into slots that the last state does not need,
  /// as many as there are. May run on another thread while batches of that
  /// state are assembled. Errors as Enter.
  absl::Status LoadAhead(const BufferState& next, const std::stop_token& stop,
                         LoadTally& tally);

  /// The memory in which all rows lie, as they are stored.
  const cache::SlotArena& rows() const { return *rows_; }

  /// [nodes] The row of rows() that each node has; -1: it is not in memory.
  absl::Span<const int64_t> row_of() const { return row_of_; }

  /// Memory beside the rows.
  static uint64_t OverheadBytes(int64_t num_nodes);

 private:
  static constexpr int32_t kEmpty = -1;

  bool has_rows() const { return features_.file != nullptr; }
  int64_t FirstRowOf(size_t slot) const {
    return most_kept_ + static_cast<int64_t>(slot) * partitions_.most_rows();
  }
  std::optional<size_t> SlotOf(int32_t partition) const;
  std::optional<size_t> FreeSlot(const PartitionSet& needed) const;
  absl::Status Load(int32_t partition, size_t slot, const std::stop_token& stop,
                    LoadTally& tally);
  void KeepFrom(const BufferState& state, int32_t partition, size_t slot);
  absl::Status Keep(const BufferState& state, const std::stop_token& stop,
                    LoadTally& tally);

  const store::ScannedFeatures& features_;
  const NodePartitions& partitions_;
  io::AlignedMemory staging_;
  // Rows 0 .. most_kept_ - 1 are of kept nodes; slots follow.
  std::optional<cache::SlotArena> rows_;
  int64_t most_kept_ = 0;
  // The partition in each slot, or kEmpty.
  std::vector<int32_t> in_slot_;
  // The kept nodes, in the order of their rows; and the partitions that the
  // last state needs.
  std::vector<store::NodeId> kept_;
  PartitionSet needed_;
  std::vector<int64_t> row_of_;
};

/// The part of the graph that is in memory: every node whose `row_of` is at
/// least 0 has the in-neighbors with such a row, in the order of `whole`; other
/// nodes have none. Errors of `whole` (LoadedTopology::status), and DATA_LOSS
/// for indices out of range. Takes memory for an indptr and for the lists that
/// `whole` has of the nodes in memory, at most. CANCELLED after a stop.
absl::StatusOr<std::unique_ptr<store::LoadedTopology>> NewSubgraph(
    const store::LoadedTopology& whole, absl::Span<const int64_t> row_of,
    const std::stop_token& stop);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_MARIUS_PARTITION_BUFFER_H_
