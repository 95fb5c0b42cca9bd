#ifndef HEARTH_ENGINE_MODEL_OPERATORS_MATRIX_PRODUCT_H_
#define HEARTH_ENGINE_MODEL_OPERATORS_MATRIX_PRODUCT_H_

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "engine/model/cpu/relu_dropout.h"
#include "engine/train/model_options.h"

/// Products of tall matrices (many rows, one per node) with small ones, by
/// oneDNN's kernels for blocks that stay in the caches. Rows are taken in parts
/// that depend on the sizes alone, each part by one thread, so that the number
/// of threads changes no bit. All tensors are float32, apart from rows that
/// were rounded before; no gradients. Those of another device are multiplied
/// there, in float32, by LibTorch's operators. Throws what LibTorch throws.

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

/// The type of rows that are made for products of this thread alone: bfloat16
/// if products round their factors to it, which changes no result.
at::ScalarType FactorType();

/// The number of parts in which the gradients of parameters are summed over
/// `rows` rows, all of which are there at once.
int64_t NumPartialSums(int64_t rows);

/// One term of a sum of products: x wᵀ for `x` [rows, in] of FactorType() or
/// float32, whose rows are dense, and `w` [out, in], of any strides.
struct Factors {
  at::Tensor x;
  at::Tensor w;
};

/// [rows, out]: the sum of all terms, plus `bias`, [out], in every row if there
/// is one, then the `activation` if there is one. REQUIRES: a term at least;
/// terms of equal rows and out.
at::Tensor SumOfProducts(
    absl::Span<const Factors> terms, const std::optional<at::Tensor>& bias,
    const std::optional<ReluActivation>& activation = std::nullopt);

/// x wᵀ.
at::Tensor Product(const at::Tensor& x, const at::Tensor& w);

/// Adds x wᵀ to `sum`, [rows, out], whose rows are dense.
void AddProduct(const at::Tensor& x, const at::Tensor& w,
                const at::Tensor& sum);

/// Adds what Product gives to `sum`: rounded once more than by AddProduct.
void AddRoundedProduct(const at::Tensor& x, const at::Tensor& w,
                       const at::Tensor& sum);

/// The gradient by a sum of products.
struct RowGradient {
  /// [rows, out], with dense rows: by the sum, or by what an activation made of
  /// it.
  at::Tensor gradient;
  /// Output of the activation, of the same shape, contiguous; undefined if
  /// there was none.
  at::Tensor activated = {};
  /// The factor of the activation.
  float scale = 1;
};

/// The gradient through the activation: `gradient` itself if there was none.
at::Tensor ThroughActivation(const RowGradient& rows);

/// Gradients of a layer's parameters, from the gradient g of a sum of products.
struct ParameterGradients {
  /// gᵀ xᵢ, [out, inᵢ], for each factor.
  std::vector<at::Tensor> weights;
  /// [out]: the sum of all rows of g; undefined if it was not asked for.
  at::Tensor bias;
};

/// For each of `xs` [rows, in], of FactorType() or float32, with dense rows.
/// The bias's part is added up in float32 whatever the precision.
ParameterGradients TransposedProducts(const RowGradient& g,
                                      absl::Span<const at::Tensor> xs,
                                      bool bias);

/// gᵀ x: [out, in].
at::Tensor TransposedProduct(const at::Tensor& g, const at::Tensor& x);

/// [columns]: the sum of all rows of `x`, which are dense.
at::Tensor ColumnSums(const at::Tensor& x);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_OPERATORS_MATRIX_PRODUCT_H_
