#include "engine/strategy/forecast.h"

#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/status.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/topology.h"
#include "engine/strategy/sampling.h"

namespace hearth::strategy {

absl::StatusOr<Forecast> CountRows(const ForecastContext& context,
                                   const ForecastRequest& request) {
  const absl::Span<const Pass> training =
      request.passes.first(request.num_training);
  const std::vector<ShardPick> picks =
      SpreadOver(training, request.most_batches);
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<store::LoadedTopology> topology,
      context.dataset.LoadTopology(
          {store::Residency::kMemory, store::Residency::kMapped},
          context.stop));
  double rows = 0;
  double seeds = 0;
  HEARTH_RETURN_IF_ERROR(SampleShards(
      {.clock = context.clock,
       .source = SampleSource{.topology = *topology, .labels = context.labels},
       .samplers = context.pipeline.samplers,
       .progress =
           [&](uint64_t done, uint64_t total) {
             if (!context.listener.progress) return;
             context.listener.progress("sampling", done, total);
           }},
      training, picks,
      [&](const ShardPick&, const sample::MiniBatch& batch) {
        rows += static_cast<double>(batch.input_nodes.size());
        seeds += static_cast<double>(batch.num_seeds);
        return absl::OkStatus();
      },
      context.stop));
  const Pass& pass = training.front();
  Forecast forecast;
  forecast.rows_needed = static_cast<uint64_t>(
      std::llround(rows / seeds * static_cast<double>(pass.order->size())));
  forecast.sampled_batches = picks.size() / static_cast<uint64_t>(pass.shards);
  forecast.total_batches = static_cast<uint64_t>(TotalBatches(request.passes));
  return forecast;
}

MemoryEstimate EstimateCountingMemory(const MemoryBasis& basis) {
  MemoryEstimate estimate;
  estimate.Add("topology", basis.indptr_bytes());
  AddBatches(basis,
             {.samplers = basis.pipeline.samplers,
              .sampled = basis.pipeline.samplers + 3 * basis.shards,
              .assembled = basis.shards},
             estimate);
  return estimate;
}

}  // namespace hearth::strategy
