#include "engine/strategy/sample_stage.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/sample/addressable_sampler.h"
#include "engine/sample/neighbor_sampler.h"
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

pipeline::Stage SampleStage(const Pass& pass,
                            absl::Span<const store::NodeId> seeds,
                            const SampleSource& source,
                            const SampleWidth& width) {
  using Samplers = std::vector<std::unique_ptr<sample::NeighborSampler>>;
  // Shared, since a std::function is copied.
  const auto samplers = std::make_shared<Samplers>();
  for (int i = 0; i < width.threads; ++i) {
    samplers->push_back(
        sample::NewNeighborSampler(source.topology.view(), pass.sampler));
  }
  return {.name = "sample",
          .width = width.threads,
          .queue_capacity = QueueCapacity(pass, width.queue_capacity),
          .work = [&pass, seeds, samplers, &topology = source.topology,
                   &labels = source.labels](int thread, pipeline::Item& item) {
            auto& batch = static_cast<SampledBatch&>(item);
            const absl::Span<const store::NodeId> shard =
                ShardSeeds(pass, seeds, batch.number());
            absl::StatusOr<sample::MiniBatch> sample =
                (*samplers)[thread]->Sample(KeyOfShard(pass, batch.number()),
                                            shard);
            // Names the file, where a page of it could not be read.
            HEARTH_RETURN_IF_ERROR(topology.status());
            HEARTH_RETURN_IF_ERROR(sample.status());
            batch.sample() = *std::move(sample);
            batch.labels() = labels.Gather(shard);
            return absl::OkStatus();
          }};
}

}  // namespace hearth::strategy
