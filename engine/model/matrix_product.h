#ifndef HEARTH_ENGINE_MODEL_MATRIX_PRODUCT_H_
#define HEARTH_ENGINE_MODEL_MATRIX_PRODUCT_H_

#include <ATen/core/Tensor.h>

/// Products of tall matrices (many rows, one per node) with small ones, by
/// oneDNN: over twice as fast as at::mm, which is MKL, on AMD processors. Rows
/// are taken in parts that depend on the sizes alone, each part by one thread,
/// so that the number of threads changes no bit. float32 on the CPU; no
/// gradients. Throws what LibTorch throws.

namespace hearth::model {

/// x wᵀ: [rows, out] for `x` [rows, in], contiguous, and `w` [out, in], of any
/// strides.
at::Tensor Product(const at::Tensor& x, const at::Tensor& w);

/// gᵀ x: [out, in] for `g` [rows, out] and `x` [rows, in], both contiguous: the
/// gradient by w of Product, if g is that by its result.
at::Tensor TransposedProduct(const at::Tensor& g, const at::Tensor& x);

/// [columns]: the sum of all rows of `x`, contiguous.
at::Tensor ColumnSums(const at::Tensor& x);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_MATRIX_PRODUCT_H_
