#include "engine/strategy/sampling.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "engine/pipeline/pipeline.h"
#include "engine/sample/batch_shape.h"
#include "engine/sample/device_sampler.h"
#include "engine/sample/history.h"
#include "engine/sample/neighbor_sampler.h"
#include "engine/sample/shard_window.h"
#include "engine/sample/slab_sampler.h"
#include "engine/sample/slab_topology.h"
#include "engine/store/topology.h"
#include "engine/strategy/memory_budget.h"
#include "engine/strategy/sampled_batch.h"

namespace hearth::strategy {

std::vector<store::NodeId> SeedsOf(const Pass& pass) {
  if (pass.requests != nullptr) return {};
  return pass.order->Epoch(pass.epoch_key);
}

ShardRange ShardsOf(const Pass& pass, int64_t num_seeds) {
  if (pass.requests != nullptr) {
    return {.first = pass.first_batch * pass.shards, .count = kUnbounded};
  }
  return {.first = pass.first_batch * pass.shards,
          .count = (NumBatches(num_seeds, pass.batch_size) - pass.first_batch) *
                   pass.shards};
}

int64_t MostSeeds(const Pass& pass, int64_t num_seeds) {
  const int64_t shards = pass.window.AllOf(pass.shards);
  return (std::min(num_seeds, pass.batch_size) + shards - 1) / shards;
}

SeedRange SeedsOfShard(const Pass& pass, int64_t num_seeds, int64_t number) {
  const int64_t first = number / pass.shards * pass.batch_size;
  const int64_t size = std::min(pass.batch_size, num_seeds - first);
  const int64_t shard = pass.window.first + number % pass.shards;
  const int64_t shards = pass.window.AllOf(pass.shards);
  const int64_t begin = sample::ShardBegin(size, shard, shards);
  const int64_t end = sample::ShardBegin(size, shard + 1, shards);
  return {.first = first + begin, .count = end - begin};
}

absl::Span<const store::NodeId> ShardSeeds(
    const Pass& pass, absl::Span<const store::NodeId> seeds, int64_t number) {
  const SeedRange range = SeedsOfShard(pass, std::ssize(seeds), number);
  return seeds.subspan(static_cast<size_t>(range.first),
                       static_cast<size_t>(range.count));
}

void TakeLabels(const Pass& pass, absl::Span<const store::NodeId> seeds,
                const store::Labels& labels, SampledBatch& shard) {
  absl::Span<const store::NodeId> of_batch;
  if (pass.window.is_part()) {
    const int64_t first = shard.number() / pass.shards * pass.batch_size;
    of_batch = seeds.subspan(static_cast<size_t>(first),
                             static_cast<size_t>(pass.batch_size));
  }
  shard.TakeLabels(labels, ShardSeeds(pass, seeds, shard.number()), of_batch);
}

sample::BatchKey KeyOfShard(const Pass& pass, int64_t number) {
  return {.epoch_key = pass.epoch_key,
          .batch = static_cast<uint64_t>(number / pass.shards)};
}

int QueueCapacity(const Pass& pass, int batches) {
  return batches * static_cast<int>(pass.shards);
}

namespace {

// One sampler for each thread of a stage. Shared, since a std::function is
// copyable.
using Samplers =
    std::shared_ptr<std::vector<std::unique_ptr<sample::NeighborSampler>>>;

std::unique_ptr<sample::NeighborSampler> NewSampler(
    const Pass& pass, const SampleSource& source) {
  const store::LoadedTopology& topology = source.topology;
  if (source.gpu != nullptr) {
    return source.gpu->NewSampler(pass.sampler,
                                  pass.batches.bound.nodes.empty()
                                      ? sample::BatchShape()
                                      : pass.batches.WithMargin());
  }
  if (topology.is_typed()) {
    return sample::NewTypedSampler(topology.relations(), topology.nodes(),
                                   pass.sampler);
  }
  return sample::NewNeighborSampler(topology.view(), pass.sampler);
}

Samplers NewSamplers(const Pass& pass, const SampleSource& source,
                     int threads) {
  const auto samplers = std::make_shared<Samplers::element_type>();
  for (int i = 0; i < threads; ++i) {
    samplers->push_back(NewSampler(pass, source));
  }
  return samplers;
}

// A stage that samples with `take`, one call of a sampler, and gathers the
// labels.
template <typename Take>
pipeline::Stage StageOf(const char* name, const Pass& pass,
                        absl::Span<const store::NodeId> seeds,
                        const SampleSource& source, const SampleWidth& width,
                        Take take) {
  return {.name = name,
          .width = width.threads,
          .queue_capacity = QueueCapacity(pass, width.queue_capacity),
          .work =
              [&pass, seeds, take,
               samplers = NewSamplers(pass, source, width.threads),
               &topology = source.topology,
               &labels = source.labels](int thread, pipeline::Item& item) {
                auto& batch = static_cast<SampledBatch&>(item);
                const bool is_asked_for = pass.requests != nullptr;
                const absl::Span<const store::NodeId> shard =
                    is_asked_for ? batch.seeds()
                                 : ShardSeeds(pass, seeds, batch.number());
                absl::StatusOr<sample::MiniBatch> sample =
                    take(*(*samplers)[thread], KeyOfShard(pass, batch.number()),
                         shard);
                // The topology's error names the file that could not be read.
                HEARTH_RETURN_IF_ERROR(topology.status());
                HEARTH_RETURN_IF_ERROR(sample.status());
                batch.sample() = *std::move(sample);
                if (is_asked_for) {
                  batch.TakeLabels(labels, shard);
                } else {
                  TakeLabels(pass, seeds, labels, batch);
                }
                return absl::OkStatus();
              },
          .interrupt =
              [&pass] {
                if (pass.requests != nullptr) pass.requests->Interrupt();
              }};
}

pipeline::Stage DecideStage(const Pass& pass) {
  return {.name = "decide",
          .queue_capacity = QueueCapacity(pass, kUndecided),
          .work = [&pass,
                   decisions = std::make_shared<sample::HistoryDecisions>(
                       *pass.history)](int /*thread*/, pipeline::Item& item) {
            auto& batch = static_cast<SampledBatch&>(item);
            decisions->Decide(batch.number() / pass.shards,
                              *batch.sample().top);
            return absl::OkStatus();
          }};
}

pipeline::Stage RestStage(const Pass& pass, const SampleSource& source,
                          const SampleWidth& width) {
  return {
      .name = "sample_rest",
      .width = width.threads,
      .queue_capacity = QueueCapacity(pass, width.queue_capacity),
      .work = [samplers = NewSamplers(pass, source, width.threads),
               &topology = source.topology](int thread, pipeline::Item& item) {
        const absl::Status sampled = (*samplers)[thread]->SampleRest(
            static_cast<SampledBatch&>(item).sample());
        HEARTH_RETURN_IF_ERROR(topology.status());
        return sampled;
      }};
}

}  // namespace

pipeline::Stage SampleStage(const Pass& pass,
                            absl::Span<const store::NodeId> seeds,
                            const SampleSource& source,
                            const SampleWidth& width) {
  return StageOf("sample", pass, seeds, source, width,
                 [](sample::NeighborSampler& sampler, const auto& key,
                    const auto& shard) { return sampler.Sample(key, shard); });
}

std::vector<pipeline::Stage> SampleStages(const Pass& pass,
                                          absl::Span<const store::NodeId> seeds,
                                          const SampleSource& source,
                                          const SampleWidth& width) {
  if (pass.history == nullptr) return {SampleStage(pass, seeds, source, width)};
  return {
      StageOf("sample_top", pass, seeds, source,
              {.threads = width.threads, .queue_capacity = kUndecided},
              [](sample::NeighborSampler& sampler, const auto& key,
                 const auto& shard) { return sampler.SampleTop(key, shard); }),
      DecideStage(pass), RestStage(pass, source, width)};
}

absl::StatusOr<SampledTopology> LoadSampledTopology(
    const store::Dataset& dataset, store::Residency indices,
    const PipelineOptions& pipeline, const StrategyResources& resources) {
  const bool on_gpu = pipeline.sampling_gpu.has_value();
  if (on_gpu || pipeline.topology == TopologyPlace::kMemory) {
    indices = store::Residency::kMemory;
  } else if (pipeline.topology == TopologyPlace::kMapped &&
             indices == store::Residency::kMemory) {
    indices = store::Residency::kMapped;
  }
  SampledTopology loaded;
  HEARTH_ASSIGN_OR_RETURN(
      loaded.topology,
      dataset.LoadTopology({store::Residency::kMemory, indices},
                           resources.stop));
  if (!on_gpu) return loaded;
  const auto number = static_cast<size_t>(*pipeline.sampling_gpu);
  if (number >= resources.gpus.size()) {
    return absl::FailedPreconditionError(
        absl::StrCat("sample_on: there is no cuda:", number));
  }
  HEARTH_ASSIGN_OR_RETURN(
      loaded.gpu, sample::DeviceTopology::Register(resources.gpus[number],
                                                   loaded.topology->relations(),
                                                   loaded.topology->nodes()));
  return loaded;
}

namespace {

int64_t BatchesOf(const Pass& pass) {
  const auto seeds = std::ssize(pass.order->Epoch(pass.epoch_key));
  return NumBatches(seeds, pass.batch_size) - pass.first_batch;
}

using TakeShard =
    absl::FunctionRef<absl::Status(const ShardPick&, const sample::MiniBatch&)>;

// Samples `picks`, shards of `pass`, one by one.
absl::Status SamplePicks(const SpreadSampling& sampling,
                         const SampleSource& source, const Pass& pass,
                         absl::Span<const ShardPick> picks, TakeShard take,
                         std::stop_token stop) {
  const std::vector<store::NodeId> seeds = pass.order->Epoch(pass.epoch_key);
  std::vector<pipeline::Stage> stages =
      SampleStages(pass, seeds, source, {.threads = sampling.samplers});
  const int64_t first = pass.first_batch * pass.shards;
  int64_t count = std::ssize(picks);
  if (pass.history != nullptr) {
    // Shards that are not picked pass through the stages, too, since what they
    // push decides what later ones pull, but skip the last stage.
    count = picks.back().number - first + 1;
    stages.back().work = [picks, rest = std::move(stages.back().work)](
                             int thread, pipeline::Item& item) {
      const int64_t number = static_cast<SampledBatch&>(item).number();
      const bool is_picked = std::binary_search(
          picks.begin(), picks.end(), ShardPick{picks.front().pass, number},
          [](const auto& a, const auto& b) { return a.number < b.number; });
      return is_picked ? rest(thread, item) : absl::OkStatus();
    };
  }
  auto next = picks.begin();
  return pipeline::NewPipeline(std::move(stages), "take", sampling.clock)
      ->Run(
          count,
          [&](int64_t index) {
            return std::make_unique<SampledBatch>(
                pass.history == nullptr
                    ? picks[static_cast<size_t>(index)].number
                    : first + index);
          },
          [&](std::unique_ptr<pipeline::Item> item) {
            const auto& batch = static_cast<SampledBatch&>(*item);
            if (batch.number() != next->number) return absl::OkStatus();
            return take(*next++, batch.sample());
          },
          std::move(stop));
}

// Samples `picks` of all passes together.
absl::Status SamplePicksInSlabs(const SpreadSampling& sampling,
                                const SlabSource& source,
                                absl::Span<const Pass> passes,
                                absl::Span<const ShardPick> picks,
                                TakeShard take, const std::stop_token& stop) {
  std::vector<sample::SlabPass> slab_passes;
  for (const Pass& pass : passes) {
    slab_passes.push_back(
        {.sampler = pass.sampler,
         .history = sampling.with_histories ? pass.history : nullptr});
  }
  // The shards, and the pick of each that is picked.
  std::vector<sample::SlabShard> shards;
  std::vector<ShardPick> picked;
  for (const ShardPick& pick : picks) {
    const Pass& pass = passes[pick.pass];
    const bool begins = picked.empty() || picked.back().pass != pick.pass;
    int64_t number = pick.number;
    // What shards that are not picked push decides what later ones pull.
    if (slab_passes[pick.pass].history != nullptr) {
      number =
          begins ? pass.first_batch * pass.shards : picked.back().number + 1;
    }
    for (; number <= pick.number; ++number) {
      shards.push_back({.pass = pick.pass,
                        .key = KeyOfShard(pass, number),
                        .wanted = number == pick.number});
      picked.push_back({.pass = pick.pass, .number = number});
    }
  }
  const store::Manifest& manifest = source.dataset.manifest();
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<sample::SlabTopology> topology,
      sample::SlabTopology::Open(
          source.files, source.dataset.path(), manifest,
          source.slab_bytes > 0 ? source.slab_bytes
                                : sample::SlabTopology::SlabBytes(manifest),
          stop));
  std::vector<store::NodeId> seeds;
  size_t seeds_of = passes.size();
  return sample::SampleInSlabs(
      {.files = source.files,
       .topology = *topology,
       .clock = sampling.clock,
       .samplers = sampling.samplers,
       .scratch_folder = source.scratch_folder,
       .reserve = source.reserve,
       .progress = sampling.progress},
      slab_passes, shards,
      [&](size_t shard) {
        const Pass& pass = passes[picked[shard].pass];
        if (std::exchange(seeds_of, picked[shard].pass) != picked[shard].pass) {
          seeds = pass.order->Epoch(pass.epoch_key);
        }
        const absl::Span<const store::NodeId> some =
            ShardSeeds(pass, seeds, picked[shard].number);
        return std::vector<store::NodeId>(some.begin(), some.end());
      },
      [&](size_t shard, const sample::MiniBatch& batch) {
        return take(picked[shard], batch);
      },
      stop);
}

// With layer-wise sampling, edges of layers that kept all neighbors were
// listed, too.
void CountListed(const Pass& pass, BatchBound& measured) {
  if (pass.sampler.layer_nodes.empty()) return;
  for (sample::BatchShape* shape : {&measured.largest, &measured.likely}) {
    for (const int64_t edges : shape->edges) {
      shape->listed_edges = std::max(shape->listed_edges, edges);
    }
  }
}

// The shards that are measured: shard 0, then every (num_shards / measured)th.
int64_t MeasuredShard(int64_t num_shards, int64_t measured, int64_t number) {
  return number * (num_shards / measured) +
         number * (num_shards % measured) / measured;
}

}  // namespace

int64_t TotalBatches(absl::Span<const Pass> passes) {
  int64_t total = 0;
  for (const Pass& pass : passes) total += BatchesOf(pass);
  return total;
}

std::vector<ShardPick> SpreadOver(absl::Span<const Pass> passes, int64_t most) {
  const int64_t total = TotalBatches(passes);
  const int64_t count = std::min(total, most);
  std::vector<ShardPick> picks;
  // Index among all batches of the first batch of the pass; index of the next
  // pick.
  int64_t begin = 0;
  int64_t next = 0;
  for (size_t pass = 0; pass < passes.size(); ++pass) {
    const int64_t end = begin + BatchesOf(passes[pass]);
    for (; next < count; ++next) {
      // The middle batch of each of `count` equal parts: the ends would prefer
      // short last batches.
      const auto batch = static_cast<int64_t>(
          (static_cast<__int128>(2 * next + 1) * total) / (2 * count));
      if (batch >= end) break;
      const int64_t number = passes[pass].first_batch + batch - begin;
      for (int64_t shard = 0; shard < passes[pass].shards; ++shard) {
        picks.push_back({pass, number * passes[pass].shards + shard});
      }
    }
    begin = end;
  }
  return picks;
}

absl::Status SampleShards(
    const SpreadSampling& sampling, absl::Span<const Pass> passes,
    absl::Span<const ShardPick> picks,
    absl::FunctionRef<absl::Status(const ShardPick& pick,
                                   const sample::MiniBatch& batch)>
        take,
    std::stop_token stop) {
  if (const auto* const slabs = std::get_if<SlabSource>(&sampling.source)) {
    return SamplePicksInSlabs(sampling, *slabs, passes, picks, take, stop);
  }
  const auto& source = std::get<SampleSource>(sampling.source);
  uint64_t done = 0;
  for (size_t begin = 0; begin < picks.size();) {
    size_t end = begin;
    while (end < picks.size() && picks[end].pass == picks[begin].pass) ++end;
    Pass pass = passes[picks[begin].pass];
    if (!sampling.with_histories) pass.history = nullptr;
    HEARTH_RETURN_IF_ERROR(SamplePicks(
        sampling, source, pass, picks.subspan(begin, end - begin),
        [&](const ShardPick& pick, const sample::MiniBatch& batch) {
          HEARTH_RETURN_IF_ERROR(take(pick, batch));
          if (sampling.progress) sampling.progress(++done, picks.size());
          return absl::OkStatus();
        },
        stop));
    begin = end;
  }
  return absl::OkStatus();
}

absl::StatusOr<OpenedSource> OpenSource(const store::Dataset& dataset,
                                        const store::Labels& labels,
                                        TopologyPlace place,
                                        io::FileSystem& files,
                                        std::string scratch_folder,
                                        const std::stop_token& stop) {
  if (place == TopologyPlace::kSlabs) {
    return OpenedSource{
        .topology = nullptr,
        .source = SlabSource{.dataset = dataset,
                             .files = files,
                             .scratch_folder = std::move(scratch_folder)}};
  }
  HEARTH_ASSIGN_OR_RETURN(
      std::unique_ptr<store::LoadedTopology> topology,
      dataset.LoadTopology(
          {store::Residency::kMemory, place == TopologyPlace::kMemory
                                          ? store::Residency::kMemory
                                          : store::Residency::kMapped},
          stop));
  const SampleSource source = {.topology = *topology, .labels = labels};
  return OpenedSource{.topology = std::move(topology), .source = source};
}

sample::GraphSize GraphSizeOf(const store::LoadedTopology& topology) {
  sample::GraphSize size = {.num_nodes = topology.nodes().num_nodes()};
  if (topology.is_typed()) {
    size.edge_types_into.resize(topology.nodes().num_types());
  }
  for (const store::Relation& relation : topology.relations()) {
    size.num_edges += relation.topology.num_edges();
    // A type without nodes has no edges to sample.
    if (!topology.is_typed() || relation.topology.num_nodes() == 0) continue;
    size.edge_types_into[topology.nodes().TypeOf(relation.first_destination)]
        .push_back(relation.type);
  }
  return size;
}

absl::StatusOr<BatchBound> MeasureBatches(const Pass& pass,
                                          absl::Span<const store::NodeId> seeds,
                                          const SampleSource& source,
                                          const DryRun& run,
                                          std::stop_token stop) {
  const auto num_seeds = static_cast<int64_t>(seeds.size());
  const int64_t num_shards =
      NumBatches(num_seeds, pass.batch_size) * pass.shards;
  const int64_t measured = std::min(num_shards, run.most_batches);
  BatchSpread spread;
  BatchBound result;
  result.bound = sample::ShapeBound(pass.sampler, MostSeeds(pass, num_seeds),
                                    GraphSizeOf(source.topology));
  const std::unique_ptr<pipeline::Pipeline> pipeline = pipeline::NewPipeline(
      {SampleStage(pass, seeds, source, {.threads = run.threads})}, "measure",
      run.clock);
  HEARTH_RETURN_IF_ERROR(pipeline->Run(
      measured,
      [&](int64_t number) {
        return std::make_unique<SampledBatch>(
            MeasuredShard(num_shards, measured, number));
      },
      [&](std::unique_ptr<pipeline::Item> item) {
        spread.Add(sample::ShapeOf(static_cast<SampledBatch&>(*item).sample()),
                   MostSeeds(pass, num_seeds));
        return absl::OkStatus();
      },
      std::move(stop)));
  result.largest = spread.largest();
  result.likely = spread.Likely();
  CountListed(pass, result);
  return result;
}

absl::StatusOr<std::vector<BatchBound>> MeasureBatches(
    absl::Span<const Pass> passes, const SlabSource& source, const DryRun& run,
    std::stop_token stop) {
  std::vector<ShardPick> picks;
  std::vector<int64_t> most_seeds;
  for (size_t pass = 0; pass < passes.size(); ++pass) {
    const int64_t num_seeds = passes[pass].order->size();
    const int64_t num_shards =
        NumBatches(num_seeds, passes[pass].batch_size) * passes[pass].shards;
    const int64_t measured = std::min(num_shards, run.most_batches);
    for (int64_t number = 0; number < measured; ++number) {
      picks.push_back({pass, MeasuredShard(num_shards, measured, number)});
    }
    most_seeds.push_back(MostSeeds(passes[pass], num_seeds));
  }
  std::vector<BatchSpread> spreads(passes.size());
  HEARTH_RETURN_IF_ERROR(SampleShards(
      {.clock = run.clock, .source = source, .samplers = run.threads}, passes,
      picks,
      [&](const ShardPick& pick, const sample::MiniBatch& batch) {
        spreads[pick.pass].Add(sample::ShapeOf(batch), most_seeds[pick.pass]);
        return absl::OkStatus();
      },
      std::move(stop)));
  std::vector<BatchBound> results;
  for (size_t pass = 0; pass < passes.size(); ++pass) {
    BatchBound& result = results.emplace_back();
    result.largest = spreads[pass].largest();
    result.likely = spreads[pass].Likely();
    CountListed(passes[pass], result);
  }
  return results;
}

}  // namespace hearth::strategy
