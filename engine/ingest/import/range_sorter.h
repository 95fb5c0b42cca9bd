#ifndef HEARTH_ENGINE_INGEST_IMPORT_RANGE_SORTER_H_
#define HEARTH_ENGINE_INGEST_IMPORT_RANGE_SORTER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/ingest/import/csc_arrays.h"
#include "engine/ingest/source/edge_source.h"
#include "engine/ingest/source/import_context.h"

namespace hearth::ingest {

/// Consecutive destination nodes, whose edges are sorted together in memory.
struct NodeRange {
  int64_t first_node = 0;
  int64_t num_nodes = 0;
  int64_t num_edges = 0;

  friend bool operator==(const NodeRange&, const NodeRange&) = default;
};

/// Memory of one sort: what its parts take, and what they may take.
struct SortBudget {
  /// Bytes of an element of indices.
  int64_t index_bytes = 4;
  int64_t bytes = 0;

  /// Bytes of the positions of `num_nodes` nodes.
  static int64_t PositionBytes(int64_t num_nodes);
  /// Edges of a range of `num_nodes` that fit at a time; 0 if none.
  int64_t WindowEdges(int64_t num_nodes) const;
  /// Whether all edges of the range fit at once.
  bool Fits(const NodeRange& range) const;
  /// RESOURCE_EXHAUSTED, with the numbers, if the range cannot be sorted at
  /// all.
  absl::Status Check(const NodeRange& range) const;
  /// Times that the range's edges are read to sort it.
  int64_t Passes(const NodeRange& range) const;
};

/// Joins neighboring ranges for as long as the whole fits. A range that does
/// not fit by itself stays by itself: it is sorted in several passes.
std::vector<NodeRange> JoinRanges(absl::Span<const NodeRange> ranges,
                                  const SortBudget& budget);

/// Calls `visit` with all edges of `edges`, block after block.
absl::Status ForEachBlock(
    ImportContext& context, EdgeSource& edges,
    absl::FunctionRef<absl::Status(const EdgeBlock&)> visit);

/// Sorts ranges by destination, from the first node to the last, and writes
/// them. Single-owner.
class RangeSorter {
 public:
  virtual ~RangeSorter() = default;

  /// `edges` holds exactly the edges into the nodes of `range`, which follows
  /// the range before. Edges of one node keep their order.
  /// FAILED_PRECONDITION if the edges change between two passes.
  /// REQUIRES: the budget's Check of the range is OK.
  virtual absl::Status Sort(EdgeSource& edges, const NodeRange& range) = 0;
};

/// All references must outlive the sorter.
std::unique_ptr<RangeSorter> NewRangeSorter(ImportContext& context,
                                            const SortBudget& budget,
                                            CscWriter& writer);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_RANGE_SORTER_H_
