#ifndef HEARTH_ENGINE_SAMPLE_LAYER_DRAW_H_
#define HEARTH_ENGINE_SAMPLE_LAYER_DRAW_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/sample/mini_batch.h"
#include "engine/store/topology.h"

namespace hearth::sample {

/// Layer-wise importance sampling (LADIES: Zou et al., "Layer-Dependent
/// Importance Sampling for Training Deep and Large Graph Convolutional
/// Networks", NeurIPS 2019, section 4): the nodes of a layer are drawn
/// together, in-neighbors of many of its destinations more often than others.
///
/// Single-owner: it keeps scratch memory.
class LayerDraw {
 public:
  /// Names a draw: equal ones draw the same nodes.
  struct Key {
    uint64_t data_seed = 0;
    BatchKey batch;
    /// From the seeds outward.
    size_t layer = 0;
  };

  /// Keeps, of `block`, which has the edges of all in-neighbors of its
  /// destinations, those whose source is among the `count` nodes drawn.
  /// `nodes` are its sources, destinations first; afterwards the destinations
  /// and the nodes drawn, in the order in which they stood.
  ///
  /// A source u is drawn, without replacement, with a weight of q(u), the sum
  /// of in_degree(v)^-2 over its edges to destinations v: those with the least
  /// -ln(x)/q of a uniform x of each node's own. Its edges weigh 1/q(u), so
  /// that each destination's weights sum up to 1. Where there are no more than
  /// `count` sources the block stays as it is, without weights.
  void Thin(const Key& key, int64_t count, std::vector<store::NodeId>& nodes,
            Block& block);

 private:
  struct Candidate {
    double rank = 0;
    int32_t position = 0;
  };

  void Rank(const Key& key, const std::vector<store::NodeId>& nodes);

  // By position: q; then the new position of what is kept, -1 for the others.
  std::vector<double> importance_;
  std::vector<int32_t> new_positions_;
  std::vector<Candidate> candidates_;
};

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_LAYER_DRAW_H_
