#ifndef HEARTH_KERNELS_AGGREGATE_H_
#define HEARTH_KERNELS_AGGREGATE_H_

#include <cstdint>

#include "kernels/copy_rows.h"

/// Aggregation over sampled edges on the CPU, forward and backward: SIMD for
/// any row width, single precision, no allocation, no threads of its own.
///
/// Each function writes only the output rows (or edges) of a range of rows:
/// callers split the rows over threads as they like. Sums are taken in the
/// order in which a row lists its edges, so that no bit of a result depends on
/// the split. All matrices are row-major and dense, of any alignment; outputs
/// must not overlap inputs. Thread-safe.

namespace hearth::kernels {

/// Edges grouped by row. Forward, rows are destinations and `indices` name
/// sources (CSC); Transpose makes the lists of the backward pass, whose rows
/// are sources and whose `indices` name destinations.
struct EdgeLists {
  /// [num_rows + 1] ascending: row r has the edges indptr[r] .. indptr[r + 1]
  /// - 1.
  const int64_t* indptr = nullptr;
  /// [num_edges] the row at each edge's other end.
  const int32_t* indices = nullptr;
  /// [num_edges] index of each edge in arrays with one entry per edge, or null
  /// if that is its index in `indices`.
  const int64_t* edges = nullptr;
};

/// Rows begin .. end - 1.
struct RowRange {
  int64_t begin = 0;
  int64_t end = 0;
};

/// A row of `heads` groups of `channels` columns each.
struct HeadShape {
  int64_t heads = 1;
  int64_t channels = 0;
};

/// Group h of out[r] = sum over the edges (s, e) of row r of weights[e, h]
/// times group h of source[s]; zero without edges. On transposed lists, with
/// grad_out as `source`, this gives the gradient by `source`. `weights`
/// [num_edges, heads], `source` and `out` [any, heads * channels].
void WeightedSumRows(const EdgeLists& lists, RowRange rows,
                     const float* weights, const float* source, HeadShape shape,
                     float* out);

/// WeightedSumRows of one head where the row of source s lies at the s-th
/// address of `source`: the same bits as for a dense matrix of these rows,
/// widened to float32. `weights` [num_edges], `out` [any, source.dim].
/// REQUIRES: lists.edges is null; rows of float32 are aligned to it.
void WeightedSumRows(const EdgeLists& lists, RowRange rows,
                     const float* weights, const AddressedRows& source,
                     float* out);

/// out[e, h] = dot product of group h of destination[r] and group h of
/// source[s] for each edge (s, e) of each row r of the range: the gradient of
/// WeightedSumRows by its weights, with grad_out as `destination`. A
/// product's terms are summed in an order that the CPU type fixes. `out`
/// [num_edges, heads].
void EdgeDots(const EdgeLists& lists, RowRange rows, const float* destination,
              const float* source, HeadShape shape, float* out);

/// The arrays that Transpose fills.
struct TransposedArrays {
  int64_t* indptr = nullptr;   // [num_sources + 1]
  int32_t* indices = nullptr;  // [num_edges] destinations
  int64_t* edges = nullptr;    // [num_edges] places in the forward lists
};

/// Groups the edges of `lists`, of `num_destinations` rows, by source.
/// REQUIRES: lists.edges is null. Each source lists its edges in ascending
/// order, so that gradients are summed in a fixed order. Linear time.
void Transpose(const EdgeLists& lists, int64_t num_destinations,
               int64_t num_sources, const TransposedArrays& transposed);

}  // namespace hearth::kernels

#endif  // HEARTH_KERNELS_AGGREGATE_H_
