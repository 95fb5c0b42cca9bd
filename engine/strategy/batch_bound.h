#ifndef HEARTH_ENGINE_STRATEGY_BATCH_BOUND_H_
#define HEARTH_ENGINE_STRATEGY_BATCH_BOUND_H_

#include "engine/sample/batch_shape.h"

namespace hearth::strategy {

/// How large batches are; those that come in several shards, each shard.
struct BatchBound {
  /// Layer by layer, the largest that were sampled.
  sample::BatchShape largest;
  /// No batch of these fan-outs and this batch size is larger, in any epoch.
  sample::BatchShape bound;

  /// Room for any batch, as far as can be told: an eighth above the largest
  /// seen, since another epoch's may be larger, but no more than the bound.
  /// REQUIRES: as many layers in both.
  sample::BatchShape WithMargin() const;

  bool operator==(const BatchBound&) const = default;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_BATCH_BOUND_H_
