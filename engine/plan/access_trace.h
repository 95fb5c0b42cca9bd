#ifndef HEARTH_ENGINE_PLAN_ACCESS_TRACE_H_
#define HEARTH_ENGINE_PLAN_ACCESS_TRACE_H_

#include <cstdint>
#include <stop_token>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/aligned_memory.h"
#include "engine/store/topology.h"

namespace hearth::plan {

/// The rows that a sequence of batches will need, from which a plan is made. It
/// is walked more than once, batch after batch, so that it can stay on disk.
/// Single-owner.
class AccessTrace {
 public:
  virtual ~AccessTrace() = default;

  virtual int64_t num_batches() const = 0;

  /// The distinct nodes of batch `batch`, the same at every call. Valid until
  /// the next call.
  virtual absl::StatusOr<absl::Span<const store::NodeId>> Load(
      int64_t batch) = 0;
};

/// How many batches of a trace need each node: its popularity (DiskGNN,
/// section 4). Memory: 4 bytes a node, since there are less than 2^31 batches.
/// Thread-safe once counted.
class AccessCounts {
 public:
  /// Walks the trace once. INVALID_ARGUMENT, naming it, for a node that is not
  /// below num_nodes, or too many batches; RESOURCE_EXHAUSTED without memory;
  /// CANCELLED, between two batches, when `stop` is requested; errors of the
  /// trace.
  static absl::StatusOr<AccessCounts> Count(AccessTrace& trace,
                                            int64_t num_nodes,
                                            const std::stop_token& stop);

  int64_t num_nodes() const { return static_cast<int64_t>(counts_.size()); }

  /// Over all nodes.
  int64_t num_accesses() const { return num_accesses_; }

  /// REQUIRES: 0 <= node < num_nodes().
  int64_t Of(store::NodeId node) const { return counts_[node]; }

  /// The `limit` most popular nodes, most popular first; of equally popular
  /// ones those of smaller number first. Fewer if fewer are accessed at all.
  /// Linear.
  std::vector<store::NodeId> MostAccessed(int64_t limit) const;

 private:
  AccessCounts(io::AlignedMemory memory, int64_t num_nodes);

  io::AlignedMemory memory_;
  // [num_nodes].
  absl::Span<uint32_t> counts_;
  int64_t num_accesses_ = 0;
};

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_ACCESS_TRACE_H_
