#ifndef HEARTH_ENGINE_PLAN_ACCESS_TRACE_H_
#define HEARTH_ENGINE_PLAN_ACCESS_TRACE_H_

#include <cstdint>
#include <stop_token>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/aligned_memory.h"
#include "engine/store/topology.h"

/// A known sequence of batches, and how often it needs each node.

namespace hearth::plan {

/// Rows that a sequence of batches will need, from which a plan is made. It is
/// walked more than once, batch after batch, so that it can stay on disk.
/// Single-owner.
class AccessTrace {
 public:
  virtual ~AccessTrace() = default;

  virtual int64_t num_batches() const = 0;

  /// Distinct nodes of batch `batch`, the same at every call. Valid until the
  /// next call.
  virtual absl::StatusOr<absl::Span<const store::NodeId>> Load(
      int64_t batch) = 0;
};

/// INVALID_ARGUMENT, with the number, for a node that is not below num_nodes.
absl::Status CheckNodes(absl::Span<const store::NodeId> nodes,
                        int64_t num_nodes);

/// Popularity of each node: the number of a trace's batches that need it
/// (DiskGNN, section 4). Takes 4 bytes per node, since there are fewer than
/// 2^31 batches. Thread-safe once counted.
class AccessCounts {
 public:
  /// Walks the trace once. INVALID_ARGUMENT, with the number, for a node that
  /// is not below num_nodes, or for too many batches; RESOURCE_EXHAUSTED
  /// without memory; CANCELLED, between two batches, when `stop` is requested;
  /// errors of the trace.
  static absl::StatusOr<AccessCounts> Count(AccessTrace& trace,
                                            int64_t num_nodes,
                                            const std::stop_token& stop);

  int64_t num_nodes() const { return static_cast<int64_t>(counts_.size()); }

  /// Sum over all nodes.
  int64_t num_accesses() const { return num_accesses_; }

  /// Batches that need `node`. REQUIRES: 0 <= node < num_nodes().
  int64_t Of(store::NodeId node) const { return counts_[node]; }

  /// The `limit` most popular nodes, most popular first, ties by smaller
  /// number. Fewer if fewer nodes are accessed at all. Linear time.
  std::vector<store::NodeId> MostAccessed(int64_t limit) const;

 private:
  AccessCounts(io::AlignedMemory memory, int64_t num_nodes);

  io::AlignedMemory memory_;
  // [num_nodes], in memory_.
  absl::Span<uint32_t> counts_;
  int64_t num_accesses_ = 0;
};

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_ACCESS_TRACE_H_
