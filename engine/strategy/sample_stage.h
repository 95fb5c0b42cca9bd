#ifndef HEARTH_ENGINE_STRATEGY_SAMPLE_STAGE_H_
#define HEARTH_ENGINE_STRATEGY_SAMPLE_STAGE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "engine/pipeline/pipeline.h"
#include "engine/sample/device_sampler.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/dataset.h"
#include "engine/store/labels.h"
#include "engine/store/topology.h"
#include "engine/strategy/pass.h"

namespace hearth::strategy {

/// The data that batches are sampled from.
struct SampleSource {
  const store::LoadedTopology& topology;
  const store::Labels& labels;
  /// The topology on the GPU that samples; null: the processor does.
  sample::DeviceTopology* gpu = nullptr;
};

/// How wide a sampling stage is.
struct SampleWidth {
  /// Threads, each with a sampler of its own.
  int threads = 1;
  /// Sampled batches that may wait behind the stage.
  int queue_capacity = 2;
};

/// Shards `first` .. `first + count - 1` of an epoch: shard s of batch b has
/// the number b * Pass::shards + s.
struct ShardRange {
  int64_t first = 0;
  int64_t count = 0;
};

/// All shards of the batches of a pass over `num_seeds` seeds.
ShardRange ShardsOf(const Pass& pass, int64_t num_seeds);

/// Seeds of the largest shard of a pass over `num_seeds` seeds.
int64_t MostSeeds(const Pass& pass, int64_t num_seeds);

/// Seeds `first` .. `first + count - 1` of those of an epoch.
struct SeedRange {
  int64_t first = 0;
  int64_t count = 0;
};

/// The seeds that shard `number` of a pass over `num_seeds` seeds has.
SeedRange SeedsOfShard(const Pass& pass, int64_t num_seeds, int64_t number);

/// The seeds of shard `number` of a pass over `seeds`.
absl::Span<const store::NodeId> ShardSeeds(
    const Pass& pass, absl::Span<const store::NodeId> seeds, int64_t number);

/// The key by which the neighbors in shard `number` are drawn.
sample::BatchKey KeyOfShard(const Pass& pass, int64_t number);

/// The capacity of a queue where `batches` may wait, whole or as shards.
int QueueCapacity(const Pass& pass, int batches);

/// The stage "sample": fills in the sample and the labels of each SampledBatch.
/// `seeds` are all those of the pass. All of it must outlive the stage. Takes
/// no notice of Pass::history: for batches that are only looked at.
pipeline::Stage SampleStage(const Pass& pass,
                            absl::Span<const store::NodeId> seeds,
                            const SampleSource& source,
                            const SampleWidth& width);

/// The stages that sample the batches of a pass: "sample" alone, or, with a
/// history, "sample_top", "decide", which takes the batches one by one in
/// order, and "sample_rest". REQUIRES: a pipeline in order of the numbers.
std::vector<pipeline::Stage> SampleStages(const Pass& pass,
                                          absl::Span<const store::NodeId> seeds,
                                          const SampleSource& source,
                                          const SampleWidth& width);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_SAMPLE_STAGE_H_
