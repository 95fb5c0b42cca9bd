#ifndef HEARTH_ENGINE_STRATEGY_LARGEST_BATCH_H_
#define HEARTH_ENGINE_STRATEGY_LARGEST_BATCH_H_

#include <cstdint>
#include <stop_token>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/store/topology.h"
#include "engine/strategy/pass.h"
#include "engine/strategy/sample_stage.h"

namespace hearth::strategy {

/// How batches are measured.
struct DryRun {
  const Clock& clock;
  int threads = 1;
  /// Batches that are sampled, of more, evenly spread over the pass.
  int64_t most_batches = 256;
};

/// The size of the whole graph.
sample::GraphSize GraphSizeOf(const store::LoadedTopology& topology);

/// Samples batches of `pass`, whose seeds are `seeds`, to see how large they
/// (or their shards) are. CANCELLED if `stop` is requested.
absl::StatusOr<BatchBound> MeasureBatches(const Pass& pass,
                                          absl::Span<const store::NodeId> seeds,
                                          const SampleSource& source,
                                          const DryRun& run,
                                          std::stop_token stop);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_LARGEST_BATCH_H_
