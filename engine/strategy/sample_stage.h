#ifndef HEARTH_ENGINE_STRATEGY_SAMPLE_STAGE_H_
#define HEARTH_ENGINE_STRATEGY_SAMPLE_STAGE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "engine/pipeline/pipeline.h"
#include "engine/store/labels.h"
#include "engine/store/topology.h"
#include "engine/strategy/strategy.h"

namespace hearth::strategy {

/// What batches are sampled from.
struct SampleSource {
  const store::Topology& topology;
  const store::Labels& labels;
};

/// How wide a sampling stage is.
struct SampleWidth {
  /// Threads, each with a sampler of its own.
  int threads = 1;
  /// Sampled batches that may wait behind the stage.
  int queue_capacity = 2;
};

/// The seeds of batch `number` of a pass over `seeds`.
absl::Span<const store::NodeId> BatchSeeds(
    const Pass& pass, absl::Span<const store::NodeId> seeds, int64_t number);

/// The stage "sample": fills in the sample and the labels of each SampledBatch.
/// `seeds` are all those of the pass. All of it must outlive the stage.
pipeline::Stage SampleStage(const Pass& pass,
                            absl::Span<const store::NodeId> seeds,
                            const SampleSource& source,
                            const SampleWidth& width);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_SAMPLE_STAGE_H_
