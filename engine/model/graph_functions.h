#ifndef HEARTH_ENGINE_MODEL_GRAPH_FUNCTIONS_H_
#define HEARTH_ENGINE_MODEL_GRAPH_FUNCTIONS_H_

#include <ATen/core/Tensor.h>

#include <optional>

#include "engine/model/edges.h"
#include "engine/model/relu_dropout.h"

/// Differentiable operations on mini-batches, whose results do not depend on
/// the number of threads. D, S and E are the numbers of destinations, sources
/// and edges.

namespace hearth::model {

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

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_GRAPH_FUNCTIONS_H_
