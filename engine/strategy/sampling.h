#ifndef HEARTH_ENGINE_STRATEGY_SAMPLING_H_
#define HEARTH_ENGINE_STRATEGY_SAMPLING_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/pipeline/pipeline.h"
#include "engine/sample/device_sampler.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/dataset.h"
#include "engine/store/labels.h"
#include "engine/store/topology.h"
#include "engine/strategy/pass.h"
#include "engine/strategy/strategy.h"

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

/// The topology that a strategy samples from, on the processor or on a GPU.
struct SampledTopology {
  std::unique_ptr<store::LoadedTopology> topology = nullptr;
  /// Null: the processor samples. Goes before the topology.
  std::unique_ptr<sample::DeviceTopology> gpu = nullptr;

  SampleSource With(const store::Labels& labels) const {
    return {*topology, labels, gpu.get()};
  }

  /// Gives back what is only needed during passes (Strategy::Rest).
  void Rest() {
    if (gpu != nullptr) gpu->Rest();
  }
};

/// Loads the topology of `dataset`: the indptr into memory, since a mapped one
/// would send the sampler astray where it cannot be read, and the indices as
/// `indices` says, or, for a GPU that samples, into memory, too. Errors of
/// loading it and of pinning it; FAILED_PRECONDITION, naming the option, if
/// there is no such GPU.
absl::StatusOr<SampledTopology> LoadSampledTopology(
    const store::Dataset& dataset, store::Residency indices,
    const PipelineOptions& pipeline, const StrategyResources& resources);

/// Sampling for its own sake, before or instead of training: all batches of
/// some passes, or a part of them that is spread evenly.

/// One shard of a batch.
struct ShardPick {
  /// Index among the passes.
  size_t pass = 0;
  /// As in ShardsOf.
  int64_t number = 0;

  bool operator==(const ShardPick&) const = default;
};

/// Batches of all passes together, from each one's `first_batch` on.
int64_t TotalBatches(absl::Span<const Pass> passes);

/// All shards of `most` batches, spread evenly over those of all passes, or of
/// all batches if there are no more: pass after pass, each in order.
/// REQUIRES: most >= 1.
std::vector<ShardPick> SpreadOver(absl::Span<const Pass> passes, int64_t most);

struct SpreadSampling {
  const Clock& clock;
  SampleSource source;
  /// Threads.
  int samplers = 1;
  /// Hears of shards done and in all. May be empty.
  std::function<void(uint64_t done, uint64_t total)> progress = nullptr;
  /// Whether passes keep to their histories, for which the last layer of every
  /// shard up to the last one that is picked is sampled; else they are taken to
  /// have none.
  bool with_histories = false;
};

/// Samples `picks`, which SpreadOver made of `passes`, by several threads, and
/// hands each to `take`, in their order, on the caller's thread. CANCELLED when
/// `stop` is requested; errors of `take`.
absl::Status SampleShards(
    const SpreadSampling& sampling, absl::Span<const Pass> passes,
    absl::Span<const ShardPick> picks,
    absl::FunctionRef<absl::Status(const ShardPick& pick,
                                   const sample::MiniBatch& batch)>
        take,
    std::stop_token stop);

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

#endif  // HEARTH_ENGINE_STRATEGY_SAMPLING_H_
