#ifndef HEARTH_ENGINE_STRATEGY_PRICING_MISS_CURVES_H_
#define HEARTH_ENGINE_STRATEGY_PRICING_MISS_CURVES_H_

#include <cstdint>
#include <vector>

namespace hearth::strategy {

/// How many rows caches miss, forecast from a sample of an epoch's batches: the
/// popularity of nodes follows from the sample (PopularityModel), and caches
/// are simulated on some thousand synthetic nodes of this popularity, each in
/// every batch with a probability of its own. Caches have the share of these
/// nodes that they have of the real ones.
///
/// Limits: batches are exchangeable, as with shuffled seeds; seeds in the order
/// of a partition meet the same nodes in batches that follow each other, and
/// miss less.
///
/// Immutable; thread-safe.
class MissCurves {
 public:
  /// `seen[k]`: nodes in k of the sampled batches, k = 0 .. their number;
  /// `total`: batches of an epoch. `repeats`: whether all epochs have the same
  /// batches. REQUIRES: at least one sampled batch; total >= 1.
  MissCurves(std::vector<double> seen, int64_t total, bool repeats);

  /// Rows that an epoch misses: the first, with an empty cache, and later ones.
  struct Misses {
    double first = 0;
    double later = 0;
  };

  /// A cache of `rows` that evicts the least recently used row. A cache of all
  /// rows misses each once.
  Misses Lru(double rows) const;

  /// A cache of `rows` that knows all accesses (Belady), and takes no row that
  /// it would evict first.
  Misses Optimal(double rows) const;

  /// The most popular `hot` rows stay; others go through a cache of `lines`
  /// that evicts the least recently used row.
  Misses Static(double hot, double lines = 0) const;

  /// Rows that an epoch needs, and different ones among them.
  double accesses() const { return accesses_; }
  double distinct() const { return distinct_; }

 private:
  using Trace = std::vector<std::vector<int32_t>>;

  // Scales misses on synthetic nodes, in the batches of two epochs.
  Misses Scaled(double first, double later) const;

  double accesses_ = 0;
  double distinct_ = 0;
  // Real nodes for each synthetic one; accesses for each synthetic access.
  double nodes_per_node_ = 1;
  double accesses_per_access_ = 1;
  int32_t num_nodes_ = 0;
  // The synthetic nodes of the batches of two epochs, the most popular node has
  // number 0.
  Trace trace_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_PRICING_MISS_CURVES_H_
