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

/// A value of any type as autograd can keep it between forward and backward.
template <typename T>
struct SavedValue final : torch::CustomClassHolder {
  explicit SavedValue(T value) : value(std::move(value)) {}
  T value;
};

/// Keeps `value` for backward; one for each context.
template <typename T>
void SaveValue(torch::autograd::AutogradContext* context, T value) {
  context->saved_data["value"] = c10::IValue::make_capsule(
      c10::make_intrusive<SavedValue<T>>(std::move(value)));
}

/// The value that SaveValue kept, of the same type.
template <typename T>
T LoadValue(torch::autograd::AutogradContext* context) {
  const auto capsule = context->saved_data["value"].toCapsule();
  return static_cast<SavedValue<T>*>(capsule.get())->value;
}

/// Differentiable operations on mini-batches, whose results do not depend on
/// the number of threads. D, S and E are the numbers of destinations, sources
/// and edges.

/// x Wᵀ, + bias in every row if there is one, then the `activation` if there is
/// one: [rows, out] for `x` [rows, in] and `weight` [out, in].
at::Tensor Linear(
    const at::Tensor& x, const at::Tensor& weight,
    const std::optional<at::Tensor>& bias = std::nullopt,
    const std::optional<ReluActivation>& activation = std::nullopt);

/// x + bias in every row.
at::Tensor AddBias(const at::Tensor& x, const at::Tensor& bias);

/// A x Wᵀ, + bias and + x[:D] rootᵀ if there is a `bias` and a `root_weight`,
/// then the `activation` if there is one: [D, out] for `x` [S, in] and weights
/// [out, in], where A are the weighted edges. Sums before or after the
/// transformation, whichever is cheaper by SumsFirst.
at::Tensor PropagateLinear(
    const at::Tensor& x, const at::Tensor& weight,
    const std::optional<at::Tensor>& bias,
    const std::optional<at::Tensor>& root_weight, const EdgesPtr& edges,
    const std::optional<ReluActivation>& activation = std::nullopt);

/// Sizes that decide in which order PropagateLinear works.
struct PropagateSizes {
  int64_t sources;
  int64_t destinations;
  int64_t edges;
  int64_t in;
  int64_t out;
  bool needs_input_gradient;
};

/// Whether (A x) Wᵀ is cheaper than A (x Wᵀ), gradients included. A pure
/// function of the sizes, since the two differ in rounding.
bool SumsFirst(const PropagateSizes& sizes);

/// Sums the rows of `x`, [S, heads * channels], that lead to each destination,
/// weighed by the attention that the scores x `score_weight`ᵀ give (see
/// Edges::Attention), for a `score_weight` [2 * heads, heads * channels]: [D,
/// heads * channels].
at::Tensor SumByAttention(const at::Tensor& x, const at::Tensor& score_weight,
                          const EdgesPtr& edges);

/// The same where destinations are no sources: scores are given, those of
/// sources, [S, heads], and of destinations, [D, heads] (see Edges::ScorePair).
at::Tensor SumByAttention(const at::Tensor& x, const at::Tensor& source_scores,
                          const at::Tensor& destination_scores,
                          const EdgesPtr& edges);

/// The same with GATv2's attention of `destinations`, [D, heads * channels], to
/// the rows of `sources`, [S, heads * channels], which are summed; `vectors`
/// [1, heads, channels] (see Edges::DynamicAttention).
at::Tensor SumByDynamicAttention(const at::Tensor& sources,
                                 const at::Tensor& destinations,
                                 const at::Tensor& vectors,
                                 const EdgesPtr& edges);

/// The `activation` of x; x itself if there is none. Works in place: `x` must
/// not be needed by anyone else.
at::Tensor Activate(const at::Tensor& x,
                    const std::optional<ReluActivation>& activation);

/// LeakyReLU of slope kLeakyReluSlope, then `dropout` if there is one, in place
/// likewise.
at::Tensor LeakyReluDropout(const at::Tensor& x,
                            const std::optional<DropoutPattern>& dropout);

/// Differentiable operations on some rows of a matrix, whose results do not
/// depend on the number of threads: each output row is written by one thread,
/// in the order of the sets. float32, contiguous; no row is named twice in a
/// set.

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

#endif  // HEARTH_ENGINE_MODEL_OPERATORS_GRAPH_FUNCTIONS_H_
