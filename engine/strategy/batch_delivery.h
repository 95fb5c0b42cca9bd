#ifndef HEARTH_ENGINE_STRATEGY_BATCH_DELIVERY_H_
#define HEARTH_ENGINE_STRATEGY_BATCH_DELIVERY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>

#include "absl/status/status.h"
#include "engine/base/clock.h"
#include "engine/pipeline/pipeline.h"
#include "engine/strategy/sampled_batch.h"
#include "engine/strategy/strategy.h"

namespace hearth::strategy {

/// Which batches a pipeline delivers and how they count.
struct Delivery {
  const Clock& clock;
  int64_t first_batch = 0;
  int64_t num_batches = 0;
  /// Bytes of a stored row.
  int64_t row_bytes = 0;
  /// Makes the item for a batch; a plain SampledBatch where absent.
  std::function<std::unique_ptr<SampledBatch>(int64_t number)> make = nullptr;
  /// Adds a strategy's own figures of a batch that the consumer has taken.
  std::function<void(const SampledBatch& batch, PassReport& report)> count =
      nullptr;
};

/// Runs batches `first_batch` .. of SampledBatch items through `pipeline` and
/// hands them to `consumer`, as Strategy::Run does. Times, stages, batches,
/// rows and bytes needed are set in `report`; the rest of it is left alone.
absl::Status Deliver(pipeline::Pipeline& pipeline, const Delivery& delivery,
                     const Strategy::Consumer& consumer, std::stop_token stop,
                     PassReport& report);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_BATCH_DELIVERY_H_
