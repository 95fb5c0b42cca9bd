#ifndef HEARTH_ENGINE_STRATEGY_SUPERBATCH_ACCESS_TABLE_H_
#define HEARTH_ENGINE_STRATEGY_SUPERBATCH_ACCESS_TABLE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/aligned_memory.h"
#include "engine/store/topology.h"

namespace hearth::strategy {

/// In which batch each node is needed next: the arrays iters and ptr of Ginex
/// (section 3.4, figure 12). iters lists the batches of node 0, then those of
/// node 1, and so on, each list ascending, its first entry marked by the most
/// significant bit; one dummy entry, as large as can be, ends it. ptr[v] is
/// where node v stands in it.
///
/// Built in two passes over the batches, by Count and then Place; a third one
/// asks First and Advance. Memory: 8 bytes a node and 4 an access.
/// Single-owner.
class AccessTable {
 public:
  /// The batch of a node that is not needed again: above all others.
  static constexpr uint32_t kNever = UINT32_MAX;
  /// Batches are numbered below this.
  static constexpr int64_t kMaxBatches = int64_t{1} << 31;

  /// RESOURCE_EXHAUSTED if the memory for so many nodes is not to be had.
  static absl::StatusOr<AccessTable> Make(int64_t num_nodes);

  /// First pass: one more access of each node. INVALID_ARGUMENT, naming it,
  /// for a node that is not below num_nodes.
  absl::Status Count(absl::Span<const store::NodeId> nodes);

  /// Between the passes: RESOURCE_EXHAUSTED if there is no memory for as many
  /// accesses as were counted.
  absl::Status BeginPlacing();

  /// Second pass, in order of the batches. REQUIRES: the nodes counted.
  void Place(uint32_t batch, absl::Span<const store::NodeId> nodes);

  /// Ends the second pass.
  void EndPlacing();

  int64_t num_accesses() const { return num_accesses_; }

  /// The first batch of a node not yet advanced. REQUIRES: it has one.
  uint32_t First(store::NodeId node) const {
    return iters_[ptr_[node]] & ~kFirst;
  }

  /// next[i] = the batch in which nodes[i], needed in the present one, is
  /// needed next; kNever if it is not.
  void Advance(absl::Span<const store::NodeId> nodes,
               absl::Span<uint32_t> next);

  /// Bytes of a table of this many nodes and accesses.
  static uint64_t MemoryBytes(int64_t num_nodes, int64_t num_accesses);

 private:
  // The mark of a node's first entry.
  static constexpr uint32_t kFirst = uint32_t{1} << 31;

  AccessTable(io::AlignedMemory ptr_memory, int64_t num_nodes);

  io::AlignedMemory ptr_memory_;
  io::AlignedMemory iters_memory_;
  // [num_nodes].
  absl::Span<int64_t> ptr_;
  // [num_accesses + 1].
  absl::Span<uint32_t> iters_;
  int64_t num_accesses_ = 0;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_SUPERBATCH_ACCESS_TABLE_H_
