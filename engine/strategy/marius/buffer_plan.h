#ifndef HEARTH_ENGINE_STRATEGY_MARIUS_BUFFER_PLAN_H_
#define HEARTH_ENGINE_STRATEGY_MARIUS_BUFFER_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/store/dataset.h"
#include "engine/store/topology.h"
#include "engine/strategy/marius/partition_order.h"

/// What is in memory when, for strategy `marius`: the partitions of the nodes
/// (NodePartitions), and the states of the partition buffer during a pass, with
/// the seeds of each (PlanStates). Plain data and pure functions; nothing here
/// holds a row.

namespace hearth::strategy {

/// Partitions of the nodes of all types (store::NodeSpace) by number: partition
/// i has the nodes [first(i), first(i + 1)), whose rows, and whose neighbor
/// lists, lie next to each other in their files. All take about as many bytes.
/// Immutable; thread-safe.
class NodePartitions {
 public:
  /// Partitions of the nodes of `topology`, whose rows have `row_bytes`, for a
  /// buffer of `buffer_bytes`: `partitions` of them, or, for 0, so many that
  /// the buffer holds 32, but of at least 4 MiB where it then holds 4. A single
  /// one if the buffer holds everything. Reads only the indptr.
  static NodePartitions Make(const store::LoadedTopology& topology,
                             int64_t row_bytes, uint64_t buffer_bytes,
                             int32_t partitions);

  int32_t count() const { return static_cast<int32_t>(firsts_.size()) - 1; }
  store::NodeId first(int32_t partition) const { return firsts_[partition]; }
  int64_t num_rows(int32_t partition) const {
    return firsts_[partition + 1] - firsts_[partition];
  }
  int32_t PartitionOf(store::NodeId node) const;

  /// Rows of the largest partition.
  int64_t most_rows() const { return most_rows_; }

  /// Memory that holds any one of the partitions: its rows and lists.
  uint64_t slot_bytes() const { return slot_bytes_; }

 private:
  // [count() + 1] ascending from 0.
  std::vector<store::NodeId> firsts_;
  int64_t most_rows_ = 0;
  uint64_t slot_bytes_ = 0;
};

/// Bytes of the rows and neighbor lists of all of `nodes`.
uint64_t BytesOf(const store::LoadedTopology& topology, int64_t row_bytes,
                 absl::Span<const store::NodeId> nodes);

/// What the partition buffer holds while some batches are sampled and trained.
struct BufferState {
  PartitionSet partitions = {};
  /// Nodes whose rows and lists are in memory, too; ascending. Some may be in
  /// the partitions.
  std::vector<store::NodeId> kept = {};
  /// The batches [first_batch, end_batch) of the pass; at least one.
  int64_t first_batch = 0;
  int64_t end_batch = 0;
};

/// A training pass by the states of the buffer.
struct PassStates {
  /// All seeds of the pass, in the order in which they are trained on.
  std::vector<store::NodeId> seeds = {};
  std::vector<BufferState> states = {};
  /// Partitions and kept nodes that the buffer has room for.
  int32_t num_slots = 0;
  int64_t most_kept = 0;
};

/// What PlanStates needs to know.
struct StatesRequest {
  const store::LoadedTopology& topology;
  const NodePartitions& partitions;
  int64_t row_bytes = 0;
  uint64_t buffer_bytes = 0;
  int64_t batch_size = 0;
  uint64_t data_seed = 0;
  uint64_t epoch_key = 0;
};

/// The states of a pass over `seeds`, in the order of the epoch.
///
/// If the buffer has room for all training nodes and for at least one
/// partition, there is one state: the training nodes, and as many random
/// partitions as fit, other ones for another epoch key (MariusGNN, section 5,
/// on node classification); the seeds keep their order. Otherwise each
/// partition comes into memory once (DispersedOrder), with a quarter of the
/// slots left for those that come next; a seed is trained on at a random one of
/// the times at which its partition is there. The batch at the border of two
/// states belongs to the later one, where its seeds whose partitions have left
/// are kept.
///
/// RESOURCE_EXHAUSTED, with the numbers, if the buffer does not hold one
/// partition and the seeds of one batch.
absl::StatusOr<PassStates> PlanStates(const StatesRequest& request,
                                      std::vector<store::NodeId> seeds);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_MARIUS_BUFFER_PLAN_H_
