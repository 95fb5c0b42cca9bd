#ifndef HEARTH_ENGINE_STRATEGY_SAMPLING_H_
#define HEARTH_ENGINE_STRATEGY_SAMPLING_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/pipeline/pipeline.h"
#include "engine/sample/device_sampler.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/dataset.h"
#include "engine/store/labels.h"
#include "engine/store/topology.h"
#include "engine/strategy/pass.h"
#include "engine/strategy/strategy.h"

/// How strategies sample: which seeds a shard has, the stages of a pipeline
/// that sample passes on the CPU or on a GPU, samples of an evenly spread part
/// of some passes (SampleShards), and measuring batch sizes (MeasureBatches).
/// The same pass gives the same batches for any number of threads.

namespace hearth::strategy {

class SampledBatch;

/// The data that batches are sampled from.
struct SampleSource {
  const store::LoadedTopology& topology;
  const store::Labels& labels;
  /// The topology on the GPU that samples; null: the CPU samples.
  sample::DeviceTopology* gpu = nullptr;
};

/// The data that batches are sampled from slab by slab, all together, so that
/// the topology takes little memory (sample::SampleInSlabs).
struct SlabSource {
  const store::Dataset& dataset;
  io::FileSystem& files;
  /// A folder, in an existing one, that is made and removed.
  std::string scratch_folder;
  /// Called before `bytes` more bytes are written to it; by one thread at a
  /// time. May be empty.
  std::function<absl::Status(uint64_t bytes)> reserve = nullptr;
  /// Bytes of a slab; 0: sample::SlabTopology::SlabBytes.
  uint64_t slab_bytes = 0;
};

/// Sampling beforehand can take batches one by one, or all together.
using OfflineSource = std::variant<SampleSource, SlabSource>;

/// The width of a sampling stage.
struct SampleWidth {
  /// Threads, each with a sampler of its own.
  int threads = 1;
  /// Whole batches that may wait behind the stage.
  int queue_capacity = 2;
};

/// Shards `first` .. `first + count - 1` of an epoch: shard s of batch b has
/// the number b * Pass::shards + s.
struct ShardRange {
  int64_t first = 0;
  int64_t count = 0;
};

/// The seeds of the epoch, in order; none where the pass has requests.
std::vector<store::NodeId> SeedsOf(const Pass& pass);

/// All shards of the batches of a pass over `num_seeds` seeds; with requests,
/// kUnbounded.
ShardRange ShardsOf(const Pass& pass, int64_t num_seeds);

/// Seeds of the largest shard of a pass over `num_seeds` seeds.
int64_t MostSeeds(const Pass& pass, int64_t num_seeds);

/// Seeds `first` .. `first + count - 1` of an epoch.
struct SeedRange {
  int64_t first = 0;
  int64_t count = 0;
};

/// The seeds of shard `number` of a pass over `num_seeds` seeds, as indices.
SeedRange SeedsOfShard(const Pass& pass, int64_t num_seeds, int64_t number);

/// The seeds of shard `number` of a pass over `seeds`, as nodes.
absl::Span<const store::NodeId> ShardSeeds(
    const Pass& pass, absl::Span<const store::NodeId> seeds, int64_t number);

/// Gathers the labels of a shard, and those of its whole batch where several
/// machines share it (Pass::window), from those of all nodes, which outlive the
/// shard. `seeds` are all seeds of the pass.
void TakeLabels(const Pass& pass, absl::Span<const store::NodeId> seeds,
                const store::Labels& labels, SampledBatch& shard);

/// The key by which the neighbors of shard `number` are drawn: that of its
/// whole batch.
sample::BatchKey KeyOfShard(const Pass& pass, int64_t number);

/// The capacity, in shards, of a queue where `batches` whole batches may wait.
int QueueCapacity(const Pass& pass, int batches);

/// The stage "sample": fills in the sample and the labels of each SampledBatch.
/// `seeds` are all seeds of the pass; with requests, batches have their own
/// (SampledBatch::seeds). All arguments must outlive the stage.
/// Ignores Pass::history: for batches that are measured or counted, not trained
/// on.
pipeline::Stage SampleStage(const Pass& pass,
                            absl::Span<const store::NodeId> seeds,
                            const SampleSource& source,
                            const SampleWidth& width);

/// The stages that sample the batches of a pass: "sample" alone, or, with a
/// history, "sample_top", "decide" (one batch after the other, in order) and
/// "sample_rest". REQUIRES: a pipeline that keeps the order of shard numbers.
std::vector<pipeline::Stage> SampleStages(const Pass& pass,
                                          absl::Span<const store::NodeId> seeds,
                                          const SampleSource& source,
                                          const SampleWidth& width);

/// The topology that a strategy samples from, on the CPU or on a GPU.
struct SampledTopology {
  std::unique_ptr<store::LoadedTopology> topology = nullptr;
  /// Null: the CPU samples. Destroyed before the topology, which it refers to.
  std::unique_ptr<sample::DeviceTopology> gpu = nullptr;

  SampleSource With(const store::Labels& labels) const {
    return {*topology, labels, gpu.get()};
  }

  /// Releases the memory that only passes need (Strategy::Rest).
  void Rest() {
    if (gpu != nullptr) gpu->Rest();
  }
};

/// Loads the topology of `dataset`: the indptr into memory (pages of a mapped
/// one that cannot be read would send the sampler out of bounds), and the
/// indices as `indices` says, unless PipelineOptions::topology says otherwise,
/// or, for a GPU that samples, into memory, too.
/// Errors of loading and of pinning; FAILED_PRECONDITION, naming the option, if
/// there is no such GPU.
absl::StatusOr<SampledTopology> LoadSampledTopology(
    const store::Dataset& dataset, store::Residency indices,
    const PipelineOptions& pipeline, const StrategyResources& resources);

/// Sampling before or instead of training: all batches of some passes, or an
/// evenly spread part of them.

/// An OfflineSource with the topology that it refers to.
struct OpenedSource {
  /// Null with a SlabSource.
  std::unique_ptr<store::LoadedTopology> topology;
  OfflineSource source;
};

/// The data for sampling beforehand, with the indices where `place` says; by
/// default they are mapped. `scratch_folder` is as SlabSource's. All arguments
/// outlive the result. Errors of loading.
absl::StatusOr<OpenedSource> OpenSource(const store::Dataset& dataset,
                                        const store::Labels& labels,
                                        TopologyPlace place,
                                        io::FileSystem& files,
                                        std::string scratch_folder,
                                        const std::stop_token& stop);

/// One shard of a batch.
struct ShardPick {
  /// Index of its pass among the passes.
  size_t pass = 0;
  /// The shard's number, as in ShardsOf.
  int64_t number = 0;

  bool operator==(const ShardPick&) const = default;
};

/// Batches of all passes together, each from its `first_batch` on.
int64_t TotalBatches(absl::Span<const Pass> passes);

/// All shards of `most` batches spread evenly over the batches of all passes,
/// or of all batches if there are no more; pass after pass, each in order.
/// REQUIRES: most >= 1.
std::vector<ShardPick> SpreadOver(absl::Span<const Pass> passes, int64_t most);

struct SpreadSampling {
  const Clock& clock;
  OfflineSource source;
  /// Threads that sample.
  int samplers = 1;
  /// Called with shards, or with a SlabSource other units of work, done and in
  /// all. May be empty.
  std::function<void(uint64_t done, uint64_t total)> progress = nullptr;
  /// Whether Pass::history counts. Then the top layer of every shard up to the
  /// last picked one is sampled, since earlier shards decide what later ones
  /// pull. Otherwise passes are sampled as if they had no history.
  bool with_histories = false;
};

/// Samples `picks`, made by SpreadOver from `passes`, by several threads, and
/// calls `take` with each sample, in the order of the picks, on the caller's
/// thread. CANCELLED when `stop` is requested; errors of `take`, and of
/// sample::SampleInSlabs.
absl::Status SampleShards(
    const SpreadSampling& sampling, absl::Span<const Pass> passes,
    absl::Span<const ShardPick> picks,
    absl::FunctionRef<absl::Status(const ShardPick& pick,
                                   const sample::MiniBatch& batch)>
        take,
    std::stop_token stop);

/// How MeasureBatches samples.
struct DryRun {
  const Clock& clock;
  int threads = 1;
  /// The most batches to sample, spread evenly over the pass.
  int64_t most_batches = 256;
};

/// The size of the graph of `topology`, over all edge types.
sample::GraphSize GraphSizeOf(const store::LoadedTopology& topology);

/// Measures how large the shards of `pass`, whose seeds are `seeds`, are, by
/// sampling some of them. CANCELLED if `stop` is requested.
absl::StatusOr<BatchBound> MeasureBatches(const Pass& pass,
                                          absl::Span<const store::NodeId> seeds,
                                          const SampleSource& source,
                                          const DryRun& run,
                                          std::stop_token stop);

/// MeasureBatches for several passes together, slab by slab: one measurement a
/// pass, without `bound`.
absl::StatusOr<std::vector<BatchBound>> MeasureBatches(
    absl::Span<const Pass> passes, const SlabSource& source, const DryRun& run,
    std::stop_token stop);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_SAMPLING_H_
