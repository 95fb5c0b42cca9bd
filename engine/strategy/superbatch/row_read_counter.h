#ifndef HEARTH_ENGINE_STRATEGY_SUPERBATCH_ROW_READ_COUNTER_H_
#define HEARTH_ENGINE_STRATEGY_SUPERBATCH_ROW_READ_COUNTER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/io/coalesce.h"
#include "engine/io/read_queues.h"
#include "engine/io/row_reader.h"
#include "engine/store/dataset.h"
#include "engine/store/topology.h"
#include "engine/strategy/superbatch/changeset.h"

namespace hearth::strategy {

/// The reads of an execution by purpose.
struct RowReads {
  io::ReadTally filling;
  io::ReadTally executing;
};

/// Counts the reads by which an Executor would get the rows of a superbatch,
/// and makes none. Single-owner.
class RowReadCounter {
 public:
  /// For readers with `depth` reads in flight. `features` outlives it. Errors
  /// as io::QueuedReader::Open.
  static absl::StatusOr<RowReadCounter> Make(
      io::ReadQueues& queues, const Clock& clock, int depth,
      const store::StoredFeatures& features);

  /// The cache is filled anew with these rows, in any order.
  absl::Status Fill(std::vector<store::NodeId> nodes);

  /// A batch needs `nodes`, after which the cache changes.
  absl::Status Add(absl::Span<const store::NodeId> nodes,
                   const Changeset& changeset);

  /// Rows that all batches so far need.
  int64_t rows_needed() const { return rows_needed_; }

  /// The reads to fill the cache, and those for the batches; nobody waits.
  const RowReads& reads() const { return reads_; }

 private:
  RowReadCounter(const store::StoredFeatures& features,
                 const io::ReadCost& filling, const io::ReadCost& executing);

  absl::Status CountReads(absl::Span<const store::NodeId> nodes,
                          const io::ReadCost& cost, io::ReadTally& tally);

  const store::StoredFeatures& features_;
  const io::ReadCost filling_;
  const io::ReadCost executing_;
  // [num_nodes] whether the cache has the row.
  std::vector<bool> inside_;
  std::vector<store::NodeId> misses_;
  io::ReadPlan plan_;
  int64_t rows_needed_ = 0;
  RowReads reads_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_SUPERBATCH_ROW_READ_COUNTER_H_
