#ifndef HEARTH_ENGINE_MODEL_CPU_PRODUCT_OPERANDS_H_
#define HEARTH_ENGINE_MODEL_CPU_PRODUCT_OPERANDS_H_

#include <cstdint>

/// Blocks of matrices, laid out and rounded for the kernels of matrix products.
/// SIMD, no allocation, no threads; the same bits on every processor.
/// Thread-safe. Knows no torch.

namespace hearth::model {

/// A block of a row-major matrix.
template <typename T>
struct MatrixBlock {
  const T* data = nullptr;
  int64_t rows = 0;
  int64_t columns = 0;
  /// Elements from one row to the next.
  int64_t stride = 0;
};

/// The bits of a bfloat16.
using Bfloat16Bits = uint16_t;
/// Bits of two bfloat16s: the first in the lower half.
using Bfloat16Pair = uint32_t;

/// Rounds a block to bfloat16, to the nearest, ties to even; NaN stays NaN.
/// Rows of `to` are `to_stride` elements apart.
void RoundRows(const MatrixBlock<float>& from, int64_t to_stride,
               Bfloat16Bits* to);

/// Rounds a block to bfloat16 and pairs its rows: to[p][c], dense with
/// ceil(rows / 2) rows, has the elements of column c in rows 2p and 2p + 1; 0
/// for a missing row.
void PairRows(const MatrixBlock<float>& from, Bfloat16Pair* to);

/// Pairs the rows of a block that is rounded already.
void PairRows(const MatrixBlock<Bfloat16Bits>& from, Bfloat16Pair* to);

/// Copies a block as consecutive panels: dense matrices of `rows` rows and
/// `panel_columns` columns; the last panel has the remaining columns. Rows that
/// `from` lacks are zeros.
void CopyPanels(const MatrixBlock<float>& from, int64_t panel_columns,
                int64_t rows, float* to);

/// Adds all rows of a block to `sums`, [columns], in order.
void AddRows(const MatrixBlock<float>& block, float* sums);

/// Transposes a block: to[c][r] = from[r][c]; rows of `to` are `to_stride`
/// elements apart.
void TransposeBlock(const MatrixBlock<float>& from, int64_t to_stride,
                    float* to);
void TransposeBlock(const MatrixBlock<Bfloat16Pair>& from, int64_t to_stride,
                    Bfloat16Pair* to);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_CPU_PRODUCT_OPERANDS_H_
