#ifndef HEARTH_ENGINE_STRATEGY_BATCH_BOUND_H_
#define HEARTH_ENGINE_STRATEGY_BATCH_BOUND_H_

#include <cstdint>
#include <vector>

#include "engine/sample/batch_shape.h"

namespace hearth::strategy {

/// How large batches are; those that come in several shards, each shard.
struct BatchBound {
  /// Layer by layer, the largest that were sampled.
  sample::BatchShape largest;
  /// Room for any batch, as far as those that were sampled tell
  /// (BatchSpread::Likely).
  sample::BatchShape likely;
  /// No batch of these fan-outs and this batch size is larger, in any epoch.
  sample::BatchShape bound;

  /// Room for any batch, as far as can be told: `likely`, but no more than the
  /// bound. REQUIRES: as many layers in both.
  sample::BatchShape WithMargin() const;

  bool operator==(const BatchBound&) const = default;
};

/// How the sizes of the batches of a pass are spread, from some of them.
class BatchSpread {
 public:
  /// Adds a batch; those with fewer than `most_seeds`, which a pass ends with,
  /// count for the largest alone.
  void Add(const sample::BatchShape& batch, int64_t most_seeds);

  const sample::BatchShape& largest() const { return largest_; }

  /// Another epoch's batches may be larger than those that were added: an
  /// eighth above the largest, or, where that is less and enough were added,
  /// eight standard deviations above the mean, since a size is the sum of what
  /// many seeds add to it. Each number by itself; none below the largest.
  sample::BatchShape Likely() const;

 private:
  // Sums over batches of one of the numbers of a shape.
  struct Sums {
    double sum = 0;
    double of_squares = 0;
  };

  sample::BatchShape largest_;
  int64_t count_ = 0;
  // In the order of sample::ForEachNumber.
  std::vector<Sums> sums_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_BATCH_BOUND_H_
