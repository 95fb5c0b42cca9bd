#ifndef HEARTH_ENGINE_MODEL_OPERATORS_MATRIX_PRODUCT_H_
#define HEARTH_ENGINE_MODEL_OPERATORS_MATRIX_PRODUCT_H_

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "engine/model/cpu/relu_dropout.h"
#include "engine/train/model_options.h"

/// Products of tall matrices (many rows, one per node) with small ones, by
/// oneDNN's kernels on blocks that fit into caches. Rows are divided into parts
/// that depend on the sizes alone, each computed by one thread, so results do
/// not depend on the number of threads. Tensors are float32, except rows that
/// were rounded before; no gradients. Tensors of another device are multiplied
/// there, in float32, by LibTorch's operators. Throws what LibTorch throws.

namespace hearth::model {

/// While it lives, products on this thread round their factors to `precision`,
/// which is not kAuto; sums and results are float32. Like LibTorch's autocast
/// it is a setting of the thread, because backward passes run on the calling
/// thread.
class ProductPrecision {
 public:
  explicit ProductPrecision(train::Precision precision);
  ~ProductPrecision();
  ProductPrecision(const ProductPrecision&) = delete;
  ProductPrecision& operator=(const ProductPrecision&) = delete;

 private:
  train::Precision before_;
};

/// Whether this processor has products of this precision.
bool HasProducts(train::Precision precision);

/// The precision that kAuto means on this processor; other precisions are
/// returned unchanged.
train::Precision ResolvedPrecision(train::Precision precision);

/// Type of rows that are made only for products on this thread: bfloat16 if
/// products round their factors to it, so that results do not change.
at::ScalarType FactorType();

/// Number of parts in which gradients of parameters are summed over `rows`
/// rows; the sums of all parts exist at the same time.
int64_t NumPartialSums(int64_t rows);

/// One term of a sum of products: x wᵀ for `x` [rows, in], of FactorType() or
/// float32 with dense rows, and `w` [out, in] with any strides.
struct Factors {
  at::Tensor x;
  at::Tensor w;
};

/// [rows, out]: sum of all terms, plus `bias`, [out], in every row, then
/// `activation`, the latter two if given. REQUIRES: at least one term; equal
/// rows and out in all terms.
at::Tensor SumOfProducts(
    absl::Span<const Factors> terms, const std::optional<at::Tensor>& bias,
    const std::optional<ReluActivation>& activation = std::nullopt);

/// [rows, out]: x wᵀ.
at::Tensor Product(const at::Tensor& x, const at::Tensor& w);

/// Adds x wᵀ to `sum`, [rows, out], which has dense rows.
void AddProduct(const at::Tensor& x, const at::Tensor& w,
                const at::Tensor& sum);

/// Adds Product(x, w) to `sum`: rounds once more than AddProduct.
void AddRoundedProduct(const at::Tensor& x, const at::Tensor& w,
                       const at::Tensor& sum);

/// Gradient by the result of SumOfProducts.
struct RowGradient {
  /// [rows, out], with dense rows: gradient by the sum or, with an activation,
  /// by its output.
  at::Tensor gradient;
  /// Output of the activation, of the same shape, contiguous; undefined without
  /// an activation.
  at::Tensor activated = {};
  /// Factor of elements that the activation kept.
  float scale = 1;
};

/// Gradient through the activation; `gradient` itself without one.
at::Tensor ThroughActivation(const RowGradient& rows);

/// Gradients of a layer's parameters, from g, the gradient by a sum of
/// products.
struct ParameterGradients {
  /// gᵀ xᵢ, [out, inᵢ], for each left factor xᵢ.
  std::vector<at::Tensor> weights;
  /// [out]: sum of all rows of g; undefined if not requested.
  at::Tensor bias;
};

/// Gradients for left factors `xs`, each [rows, in] of FactorType() or float32
/// with dense rows. The bias is summed in float32 in any precision.
ParameterGradients TransposedProducts(const RowGradient& g,
                                      absl::Span<const at::Tensor> xs,
                                      bool bias);

/// [out, in]: gᵀ x.
at::Tensor TransposedProduct(const at::Tensor& g, const at::Tensor& x);

/// [columns]: sum of all rows of `x`, which has dense rows.
at::Tensor ColumnSums(const at::Tensor& x);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_OPERATORS_MATRIX_PRODUCT_H_
