#ifndef HEARTH_ENGINE_INGEST_IMPORT_BUCKET_SORTER_H_
#define HEARTH_ENGINE_INGEST_IMPORT_BUCKET_SORTER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "engine/ingest/import/csc_arrays.h"
#include "engine/ingest/import/edge_buckets.h"
#include "engine/ingest/source/import_context.h"

namespace hearth::ingest {

/// Memory of one sort: what its parts take, and what they may take.
struct SortBudget {
  /// Bytes of an element of indices.
  int64_t index_bytes = 4;
  int64_t bytes = 0;

  /// Bytes of the positions of `num_nodes` nodes.
  static int64_t PositionBytes(int64_t num_nodes);
  /// Sorted edges of `num_nodes` nodes that fit at a time; 0 if none.
  int64_t WindowEdges(int64_t num_nodes) const;
  /// RESOURCE_EXHAUSTED, with the numbers, if the edges of so many nodes cannot
  /// be sorted at all.
  absl::Status Check(int64_t num_nodes, int64_t num_edges) const;
};

/// Sorts the edges of all buckets by destination and writes them; edges of one
/// node keep their order. Two threads sort a bucket each, with a budget each.
/// RESOURCE_EXHAUSTED as SortBudget::Check, DATA_LOSS as EdgeBuckets::Reader.
absl::Status SortBuckets(ImportContext& context, const EdgeBuckets& buckets,
                         const SortBudget& budget, CscWriter& writer);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_BUCKET_SORTER_H_
