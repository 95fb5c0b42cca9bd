#include "engine/strategy/sample_stage.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/sample/addressable_sampler.h"
#include "engine/sample/batch_shape.h"
#include "engine/sample/device_sampler.h"
#include "engine/sample/history.h"
#include "engine/sample/neighbor_sampler.h"
#include "engine/sample/typed_sampler.h"
#include "engine/strategy/memory_estimate.h"
#include "engine/strategy/sampled_batch.h"

namespace hearth::strategy {

ShardRange ShardsOf(const Pass& pass, int64_t num_seeds) {
  return {.first = pass.first_batch * pass.shards,
          .count = (NumBatches(num_seeds, pass.batch_size) - pass.first_batch) *
                   pass.shards};
}

int64_t MostSeeds(const Pass& pass, int64_t num_seeds) {
  return (std::min(num_seeds, pass.batch_size) + pass.shards - 1) / pass.shards;
}

SeedRange SeedsOfShard(const Pass& pass, int64_t num_seeds, int64_t number) {
  const int64_t first = number / pass.shards * pass.batch_size;
  const int64_t size = std::min(pass.batch_size, num_seeds - first);
  const int64_t shard = number % pass.shards;
  const int64_t begin = size * shard / pass.shards;
  const int64_t end = size * (shard + 1) / pass.shards;
  return {.first = first + begin, .count = end - begin};
}

absl::Span<const store::NodeId> ShardSeeds(
    const Pass& pass, absl::Span<const store::NodeId> seeds, int64_t number) {
  const SeedRange range = SeedsOfShard(pass, std::ssize(seeds), number);
  return seeds.subspan(static_cast<size_t>(range.first),
                       static_cast<size_t>(range.count));
}

sample::BatchKey KeyOfShard(const Pass& pass, int64_t number) {
  return {.epoch_key = pass.epoch_key,
          .batch = static_cast<uint64_t>(number / pass.shards)};
}

int QueueCapacity(const Pass& pass, int batches) {
  return batches * static_cast<int>(pass.shards);
}

namespace {

// A sampler for each thread of a stage; shared, since a std::function is
// copied.
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

// Samples with `take`, a step of a sampler, and gathers the labels.
template <typename Take>
pipeline::Stage StageOf(const char* name, const Pass& pass,
                        absl::Span<const store::NodeId> seeds,
                        const SampleSource& source, const SampleWidth& width,
                        Take take) {
  return {.name = name,
          .width = width.threads,
          .queue_capacity = QueueCapacity(pass, width.queue_capacity),
          .work = [&pass, seeds, take,
                   samplers = NewSamplers(pass, source, width.threads),
                   &topology = source.topology,
                   &labels = source.labels](int thread, pipeline::Item& item) {
            auto& batch = static_cast<SampledBatch&>(item);
            const absl::Span<const store::NodeId> shard =
                ShardSeeds(pass, seeds, batch.number());
            absl::StatusOr<sample::MiniBatch> sample = take(
                *(*samplers)[thread], KeyOfShard(pass, batch.number()), shard);
            // Names the file, where a page of it could not be read.
            HEARTH_RETURN_IF_ERROR(topology.status());
            HEARTH_RETURN_IF_ERROR(sample.status());
            batch.sample() = *std::move(sample);
            batch.labels() = labels.Gather(shard);
            return absl::OkStatus();
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

}  // namespace hearth::strategy
