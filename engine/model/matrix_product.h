#ifndef HEARTH_ENGINE_MODEL_MATRIX_PRODUCT_H_
#define HEARTH_ENGINE_MODEL_MATRIX_PRODUCT_H_

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "engine/train/model_options.h"

/// Products of tall matrices (many rows, one per node) with small ones, by
/// oneDNN's kernels for blocks that stay in the caches. Rows are taken in parts
/// that depend on the sizes alone, each part by one thread, so that the number
/// of threads changes no bit. All tensors are float32 on the CPU; no gradients.
/// Throws what LibTorch throws.

namespace hearth::model {

/// While it lives, products that this thread asks for round their factors to
/// `precision`, which is not kAuto; they are added up in float32, and results
/// are float32. Like LibTorch's autocast a matter of the thread, since backward
/// passes run on the thread that asks for them.
class ProductPrecision {
 public:
  explicit ProductPrecision(train::Precision precision);
  ~ProductPrecision();
  ProductPrecision(const ProductPrecision&) = delete;
  ProductPrecision& operator=(const ProductPrecision&) = delete;

 private:
  train::Precision before_;
};

/// Whether this processor has products of the precision.
bool HasProducts(train::Precision precision);

/// The precision that kAuto stands for on this processor; others stand for
/// themselves.
train::Precision ResolvedPrecision(train::Precision precision);

/// One term of a sum of products: x wᵀ for `x` [rows, in], whose rows are
/// dense, and `w` [out, in], of any strides.
struct Factors {
  at::Tensor x;
  at::Tensor w;
};

/// [rows, out]: the sum of all terms, plus `bias`, [out], in every row if there
/// is one. REQUIRES: a term at least; terms of equal rows and out.
at::Tensor SumOfProducts(absl::Span<const Factors> terms,
                         const std::optional<at::Tensor>& bias);

/// x wᵀ.
at::Tensor Product(const at::Tensor& x, const at::Tensor& w);

/// Adds x wᵀ to `sum`, [rows, out], whose rows are dense.
void AddProduct(const at::Tensor& x, const at::Tensor& w,
                const at::Tensor& sum);

/// What a layer's parameters get from `g`, the gradient by a sum of products.
struct ParameterGradients {
  /// gᵀ xᵢ, [out, inᵢ], for each factor.
  std::vector<at::Tensor> weights;
  /// [out]: the sum of all rows of g; undefined if it was not asked for.
  at::Tensor bias;
};

/// For `g` [rows, out] and each of `xs` [rows, in], all with dense rows. The
/// bias's part is added up in float32 whatever the precision.
ParameterGradients TransposedProducts(const at::Tensor& g,
                                      absl::Span<const at::Tensor> xs,
                                      bool bias);

/// gᵀ x: [out, in].
at::Tensor TransposedProduct(const at::Tensor& g, const at::Tensor& x);

/// [columns]: the sum of all rows of `x`, which are dense.
at::Tensor ColumnSums(const at::Tensor& x);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_MATRIX_PRODUCT_H_
