#ifndef HEARTH_ENGINE_STRATEGY_LARGEST_BATCH_H_
#define HEARTH_ENGINE_STRATEGY_LARGEST_BATCH_H_

#include <cstdint>
#include <stop_token>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/store/topology.h"
#include "engine/strategy/sample_stage.h"
#include "engine/strategy/strategy.h"

namespace hearth::strategy {

/// How many input nodes the batches of a pass have; of batches in several
/// shards, each shard.
struct BatchBound {
  /// Of the largest batch that was sampled.
  int64_t largest = 0;
  /// No batch of these fan-outs and this batch size has more, in any epoch.
  int64_t bound = 0;

  /// Room for any batch, as far as can be told: an eighth above the largest
  /// seen, since another epoch's may be larger, but no more than the bound.
  int64_t WithMargin() const;
};

/// The most input nodes that `num_seeds` seeds can have with these fan-outs in
/// a graph of `num_nodes`.
int64_t FanoutBound(absl::Span<const int32_t> fanouts, int64_t num_seeds,
                    int64_t num_nodes);

/// How batches are measured.
struct DryRun {
  const Clock& clock;
  int threads = 1;
  /// Of more batches, this many are sampled, evenly spread over the pass.
  int64_t most_batches = 256;
};

/// Samples the batches of `pass`, whose seeds are `seeds`, and counts their
/// input nodes. CANCELLED if `stop` is requested.
absl::StatusOr<BatchBound> MeasureBatches(const Pass& pass,
                                          absl::Span<const store::NodeId> seeds,
                                          const SampleSource& source,
                                          const DryRun& run,
                                          std::stop_token stop);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_LARGEST_BATCH_H_
