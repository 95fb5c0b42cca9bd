#ifndef HEARTH_ENGINE_MODEL_OPERATORS_GRAPH_FUNCTIONS_H_
#define HEARTH_ENGINE_MODEL_OPERATORS_GRAPH_FUNCTIONS_H_

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "engine/model/cpu/relations.h"
#include "engine/model/cpu/relu_dropout.h"
#include "engine/model/operators/edges.h"

namespace hearth::model {

/// Value of any type that autograd keeps between forward and backward.
template <typename T>
struct SavedValue final : torch::CustomClassHolder {
  explicit SavedValue(T value) : value(std::move(value)) {}
  T value;
};

/// Keeps `value` for backward; one value per context.
template <typename T>
void SaveValue(torch::autograd::AutogradContext* context, T value) {
  context->saved_data["value"] = c10::IValue::make_capsule(
      c10::make_intrusive<SavedValue<T>>(std::move(value)));
}

/// The value that SaveValue kept, of the same type T.
template <typename T>
T LoadValue(torch::autograd::AutogradContext* context) {
  const auto capsule = context->saved_data["value"].toCapsule();
  return static_cast<SavedValue<T>*>(capsule.get())->value;
}

// Differentiable operations on mini-batches. Results do not depend on the
// number of threads. D, S and E are the numbers of destinations, sources and
// edges.

/// x Wᵀ, plus `bias` in every row, then `activation`, the latter two if given:
/// [rows, out] for `x` [rows, in] and `weight` [out, in].
at::Tensor Linear(
    const at::Tensor& x, const at::Tensor& weight,
    const std::optional<at::Tensor>& bias = std::nullopt,
    const std::optional<ReluActivation>& activation = std::nullopt);

/// x plus `bias` in every row.
at::Tensor AddBias(const at::Tensor& x, const at::Tensor& bias);

/// A x Wᵀ, plus `bias` and x[:D] rootᵀ, then `activation`, each of the three if
/// given: [D, out] for `x` [S, in] and weights [out, in], where A are the
/// weighted edges. Sums before or after the transformation, whichever is
/// cheaper by SumsFirst. Rows in place are summed where they lie if sums come
/// first, so that only x[:D] is gathered; else all are.
at::Tensor PropagateLinear(
    const SourceRows& x, const at::Tensor& weight,
    const std::optional<at::Tensor>& bias,
    const std::optional<at::Tensor>& root_weight, const EdgesPtr& edges,
    const std::optional<ReluActivation>& activation = std::nullopt);

/// Sizes from which SumsFirst decides.
struct PropagateSizes {
  int64_t sources;
  int64_t destinations;
  int64_t edges;
  int64_t in;
  int64_t out;
  bool needs_input_gradient;
};

/// Whether (A x) Wᵀ is cheaper than A (x Wᵀ), gradients included. A pure
/// function of the sizes, because the two differ in rounding.
bool SumsFirst(const PropagateSizes& sizes);

/// [D, heads * channels]: sum of the rows of `x`, [S, heads * channels], over
/// each destination's edges, weighted by the attention of the scores x
/// `score_weight`ᵀ (see Edges::Attention), for `score_weight` [2 * heads, heads
/// * channels].
at::Tensor SumByAttention(const at::Tensor& x, const at::Tensor& score_weight,
                          const EdgesPtr& edges);

/// SumByAttention where destinations are not sources: scores are given for
/// sources, [S, heads], and destinations, [D, heads] (see Edges::ScorePair).
at::Tensor SumByAttention(const at::Tensor& x, const at::Tensor& source_scores,
                          const at::Tensor& destination_scores,
                          const EdgesPtr& edges);

/// [D, heads * channels]: sum of the rows of `sources`, [S, heads * channels],
/// weighted by GATv2's attention of `destinations`, [D, heads * channels], with
/// `vectors`, [1, heads, channels] (see Edges::DynamicAttention).
at::Tensor SumByDynamicAttention(const at::Tensor& sources,
                                 const at::Tensor& destinations,
                                 const at::Tensor& vectors,
                                 const EdgesPtr& edges);

/// `activation` of x; x itself if there is none. Works in place: nobody else
/// may need `x`.
at::Tensor Activate(const at::Tensor& x,
                    const std::optional<ReluActivation>& activation);

/// LeakyReLU with slope kLeakyReluSlope, then `dropout` if there is one. Works
/// in place: nobody else may need `x`.
at::Tensor LeakyReluDropout(const at::Tensor& x,
                            const std::optional<DropoutPattern>& dropout);

// Differentiable operations on some rows of a matrix. Results do not depend on
// the number of threads: one thread writes each output row, in the order of the
// sets. Tensors are float32 and contiguous; a set names each row once.

/// Some rows of a matrix, limited to their first `columns` columns.
struct RowSet {
  RowsPtr rows;
  int64_t columns = 0;
};

/// For each set, its rows of `x`, [rows, columns]; other elements of `x` are
/// not read. All sets at once, so that their gradients are summed in one
/// matrix.
std::vector<at::Tensor> GatherRows(const at::Tensor& x,
                                   const std::vector<RowSet>& sets);

/// Adds row i of `rows` to row (*positions)[i] of `sum`, in place: nobody else
/// may need `sum`. Returns it.
at::Tensor AddRows(const at::Tensor& sum, const at::Tensor& rows,
                   const RowsPtr& positions);

/// Adds `bias`, [columns], to each row (*positions)[i] of `sum`, likewise.
at::Tensor AddBiasToRows(const at::Tensor& sum, const at::Tensor& bias,
                         const RowsPtr& positions);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_OPERATORS_GRAPH_FUNCTIONS_H_
