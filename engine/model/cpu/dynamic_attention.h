#ifndef HEARTH_ENGINE_MODEL_CPU_DYNAMIC_ATTENTION_H_
#define HEARTH_ENGINE_MODEL_CPU_DYNAMIC_ATTENTION_H_

#include <cstdint>

#include "kernels/aggregate.h"

/// Scores of GATv2's attention (Brody, Alon and Yahav, "How Attentive are Graph
/// Attention Networks?", ICLR 2022, equation 7) and their gradients, in SIMD.
/// Each function writes only the output rows (or edges) of a range of rows, so
/// results do not depend on how rows are split over threads. Sums over edges
/// are taken in the order in which a row lists them.

namespace hearth::model {

/// Slope of LeakyReLU for negative values: PyG's default.
inline constexpr float kNegativeSlope = 0.2f;

/// Arrays from which scores are computed, row-major and dense.
struct ScoredRows {
  kernels::HeadShape shape;
  const float* sources = nullptr;       // [num_sources, heads * channels]
  const float* destinations = nullptr;  // [num_destinations, heads * channels]
  const float* attention = nullptr;     // [heads, channels]
};

/// scores[e, h] = attention[h] . LeakyReLU(sources[s, h] + destinations[d, h])
/// for each edge e = (s, d) of the destinations in `range`. `scores`
/// [num_edges, heads].
void ScoreEdges(const kernels::EdgeLists& lists, kernels::RowRange range,
                const ScoredRows& rows, float* scores);

/// Given the gradient by the scores, computes the gradient by `destinations`,
/// and each destination's contribution to the gradient by `attention`, both
/// [num_destinations, heads * channels].
void ScoreGradientByDestination(const kernels::EdgeLists& lists,
                                kernels::RowRange range, const ScoredRows& rows,
                                const float* score_gradient,
                                float* by_destination, float* by_attention);

/// Adds the gradient by `sources` to `by_source` [num_sources, heads *
/// channels]. `transposed` lists the edges by source (kernels::Transpose).
void AddScoreGradientBySource(const kernels::EdgeLists& transposed,
                              kernels::RowRange range, const ScoredRows& rows,
                              const float* score_gradient, float* by_source);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_CPU_DYNAMIC_ATTENTION_H_
