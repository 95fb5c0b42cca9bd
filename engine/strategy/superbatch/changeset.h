#ifndef HEARTH_ENGINE_STRATEGY_SUPERBATCH_CHANGESET_H_
#define HEARTH_ENGINE_STRATEGY_SUPERBATCH_CHANGESET_H_

#include <cstdint>
#include <stop_token>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/plan/access_trace.h"
#include "engine/store/topology.h"

namespace hearth::strategy {

/// How a cache of rows changes once a batch has been brought together (Ginex,
/// section 3.3): row in_ids[j] takes the place of row out_ids[j]. All three
/// have the same length.
struct Changeset {
  std::vector<store::NodeId> in_ids;
  std::vector<store::NodeId> out_ids;
  /// Where in_ids[j] stands in the batch.
  std::vector<int32_t> in_positions;
};

/// Takes a plan as it is made.
class ChangesetSink {
 public:
  virtual ~ChangesetSink() = default;

  /// Once, first: the rows that the cache holds before the first batch, those
  /// needed first foremost.
  virtual absl::Status Initialize(absl::Span<const store::NodeId> ids) = 0;

  /// For every batch, in order.
  virtual absl::Status Update(int64_t batch, const Changeset& changeset) = 0;
};

/// The rows that a cache will be asked for.
struct CacheShape {
  /// Nodes are numbered below this.
  int64_t num_nodes = 0;
  /// Rows it holds.
  int64_t capacity = 0;
};

/// The totals of a plan, in rows.
struct ChangesetTotals {
  /// Over all batches.
  int64_t needed = 0;
  /// Read to initialize the cache.
  int64_t filled = 0;
  /// Read in the course of the batches. No cache of that size, starting empty,
  /// can do with fewer than filled + missed.
  int64_t missed = 0;
};

/// The provably optimal cache of `trace` (Ginex, section 3.4): before the first
/// batch it holds the rows that are needed first; after each batch, of the rows
/// it holds and those of the batch, the ones needed again soonest (Belady, with
/// rows that bypass the cache). Of rows needed at the same time those inside
/// stay, then those of smaller number; a row not needed again never enters.
///
/// Three passes over the trace. Time: one visit of each access in each pass,
/// and log(rows) for each row that enters or leaves. Memory: see
/// ChangesetMemoryBytes. One thread, the caller's: it is meant to run beside
/// the sampling of the batches after these (section 3.1).
///
/// Errors of the trace and the sink are returned; INVALID_ARGUMENT for nodes
/// out of range and too many batches; RESOURCE_EXHAUSTED without memory;
/// CANCELLED, between two batches, when `stop` is requested.
absl::StatusOr<ChangesetTotals> PlanChangesets(plan::AccessTrace& trace,
                                               const CacheShape& shape,
                                               ChangesetSink& sink,
                                               std::stop_token stop);

/// Memory that PlanChangesets takes at most: 8 bytes and a bit a node, 4 bytes
/// an access, 24 a row of the cache, 88 a row of the largest batch, 32 a batch.
uint64_t ChangesetMemoryBytes(const CacheShape& shape, int64_t num_accesses,
                              int64_t largest_batch, int64_t num_batches);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_SUPERBATCH_CHANGESET_H_
