#include "engine/strategy/largest_batch.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/pipeline/pipeline.h"
#include "engine/strategy/sampled_batch.h"

namespace hearth::strategy {

int64_t BatchBound::WithMargin() const {
  return std::min(bound, largest + largest / 8);
}

int64_t FanoutBound(absl::Span<const int32_t> fanouts, int64_t num_seeds,
                    int64_t num_nodes) {
  int64_t nodes = std::min(num_seeds, num_nodes);
  for (const int32_t fanout : fanouts) {
    // Each node of the layer and its neighbors; no product can overflow, as
    // there are fewer than 2^48 nodes and it is checked before.
    if (fanout < 0 || nodes > num_nodes / (int64_t{fanout} + 1)) {
      return num_nodes;
    }
    nodes *= int64_t{fanout} + 1;
  }
  return nodes;
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
  const int64_t most_seeds =
      (std::min(num_seeds, pass.batch_size) + pass.shards - 1) / pass.shards;
  BatchBound result;
  result.bound = FanoutBound(pass.sampler.fanouts, most_seeds,
                             source.topology.num_nodes());
  const std::unique_ptr<pipeline::Pipeline> pipeline = pipeline::NewPipeline(
      {SampleStage(pass, seeds, source, {.threads = run.threads})}, "measure",
      run.clock);
  HEARTH_RETURN_IF_ERROR(pipeline->Run(
      measured,
      [&](int64_t number) {
        // Shard 0, and then one in num_shards / measured.
        return std::make_unique<SampledBatch>(number * (num_shards / measured) +
                                              number * (num_shards % measured) /
                                                  measured);
      },
      [&](std::unique_ptr<pipeline::Item> item) {
        result.largest = std::max(result.largest,
                                  static_cast<SampledBatch&>(*item).num_rows());
        return absl::OkStatus();
      },
      std::move(stop)));
  return result;
}

}  // namespace hearth::strategy
