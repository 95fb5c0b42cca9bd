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
  const int64_t num_batches = NumBatches(num_seeds, pass.batch_size);
  const int64_t measured = std::min(num_batches, run.most_batches);
  BatchBound result;
  result.bound =
      FanoutBound(pass.sampler.fanouts, std::min(num_seeds, pass.batch_size),
                  source.topology.num_nodes());
  const std::unique_ptr<pipeline::Pipeline> pipeline = pipeline::NewPipeline(
      {SampleStage(pass, seeds, source, {.threads = run.threads})}, "measure",
      run.clock);
  HEARTH_RETURN_IF_ERROR(pipeline->Run(
      measured,
      [&](int64_t number) {
        // Batches 0, and then one in num_batches / measured.
        return std::make_unique<SampledBatch>(
            number * (num_batches / measured) +
            number * (num_batches % measured) / measured);
      },
      [&](pipeline::Item& item) {
        result.largest = std::max(result.largest,
                                  static_cast<SampledBatch&>(item).num_rows());
        return absl::OkStatus();
      },
      std::move(stop)));
  return result;
}

}  // namespace hearth::strategy
