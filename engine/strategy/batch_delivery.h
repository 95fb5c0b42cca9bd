#ifndef HEARTH_ENGINE_STRATEGY_BATCH_DELIVERY_H_
#define HEARTH_ENGINE_STRATEGY_BATCH_DELIVERY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>

#include "absl/status/status.h"
#include "engine/base/clock.h"
#include "engine/pipeline/pipeline.h"
#include "engine/strategy/sample_stage.h"
#include "engine/strategy/sampled_batch.h"
#include "engine/strategy/strategy.h"

namespace hearth::strategy {

/// The shards of batches that a pipeline delivers, and how they count.
struct Delivery {
  const Clock& clock;
  /// Those to deliver.
  ShardRange range;
  /// Shards of a batch: Pass::shards.
  int64_t shards = 1;
  /// Bytes of a stored row.
  int64_t row_bytes = 0;
  /// Makes the item for a shard; a plain SampledBatch where absent.
  std::function<std::unique_ptr<SampledBatch>(int64_t number)> make = nullptr;
  /// Adds a strategy's own figures of a shard that the consumer is to take.
  std::function<void(const SampledBatch& shard, PassReport& report)> count =
      nullptr;
};

/// Runs the SampledBatch items of `delivery.range` through `pipeline` and hands
/// them to `consumer`, as many at a time as a batch has shards, as
/// Strategy::Run does. Times, stages, batches, rows and bytes needed are set in
/// `report`; the rest of it is left alone. REQUIRES: a range of whole batches.
absl::Status Deliver(pipeline::Pipeline& pipeline, const Delivery& delivery,
                     const Strategy::Consumer& consumer, std::stop_token stop,
                     PassReport& report);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_BATCH_DELIVERY_H_
