#ifndef HEARTH_ENGINE_MODEL_ROW_FUNCTIONS_H_
#define HEARTH_ENGINE_MODEL_ROW_FUNCTIONS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "engine/model/relation_blocks.h"

/// Differentiable operations on some rows of a matrix, whose results do not
/// depend on the number of threads: each output row is written by one thread,
/// in the order of the sets. float32, contiguous; no row is named twice in a
/// set.

namespace hearth::model {

/// Some rows of a matrix, and of each its first columns.
struct RowSet {
  RowsPtr rows;
  int64_t columns = 0;
};

/// For each set the rows of `x` that it names, [rows, columns]; nothing else of
/// `x` is read. All at once, so that their gradients meet in one matrix.
std::vector<at::Tensor> GatherRows(const at::Tensor& x,
                                   const std::vector<RowSet>& sets);

/// Adds row i of `rows` to row (*positions)[i] of `sum`, which is changed and
/// must not be needed by anyone else. Returns it.
at::Tensor AddRows(const at::Tensor& sum, const at::Tensor& rows,
                   const RowsPtr& positions);

/// The same with `bias`, [columns], for each of those rows.
at::Tensor AddBiasToRows(const at::Tensor& sum, const at::Tensor& bias,
                         const RowsPtr& positions);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_ROW_FUNCTIONS_H_
