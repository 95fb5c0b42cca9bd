#include "engine/strategy/sample_stage.h"

#include <memory>
#include <utility>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/sample/addressable_sampler.h"
#include "engine/sample/neighbor_sampler.h"
#include "engine/strategy/sampled_batch.h"

namespace hearth::strategy {

absl::Span<const store::NodeId> BatchSeeds(
    const Pass& pass, absl::Span<const store::NodeId> seeds, int64_t number) {
  return seeds.subspan(static_cast<size_t>(number * pass.batch_size),
                       static_cast<size_t>(pass.batch_size));
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
        sample::NewNeighborSampler(source.topology, pass.sampler));
  }
  return {.name = "sample",
          .width = width.threads,
          .queue_capacity = width.queue_capacity,
          .work = [&pass, seeds, samplers, &labels = source.labels](
                      int thread, pipeline::Item& item) {
            auto& batch = static_cast<SampledBatch&>(item);
            const absl::Span<const store::NodeId> batch_seeds =
                BatchSeeds(pass, seeds, batch.number());
            HEARTH_ASSIGN_OR_RETURN(
                batch.sample(),
                (*samplers)[thread]->Sample(
                    {.epoch_key = pass.epoch_key,
                     .batch = static_cast<uint64_t>(batch.number())},
                    batch_seeds));
            batch.labels() = labels.Gather(batch_seeds);
            return absl::OkStatus();
          }};
}

}  // namespace hearth::strategy
