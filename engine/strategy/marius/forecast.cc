#include "engine/strategy/marius/forecast.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "engine/base/status.h"
#include "engine/store/dataset.h"
#include "engine/store/topology.h"
#include "engine/strategy/marius/buffer_plan.h"
#include "engine/strategy/marius/partition_buffer.h"
#include "engine/strategy/pass.h"
#include "engine/strategy/sampling.h"

namespace hearth::strategy {

namespace {

// Passes whose reads are found.
constexpr size_t kMostPasses = 64;

// What the pass reads, given what the buffer holds before it.
absl::Status AddReads(const PassStates& plan, const ForecastContext& context,
                      PartitionBuffer& buffer, LoadTally& tally) {
  HEARTH_RETURN_IF_ERROR(buffer.Resize(plan.num_slots, plan.most_kept));
  for (size_t i = 0; i < plan.states.size(); ++i) {
    HEARTH_RETURN_IF_ERROR(buffer.Enter(plan.states[i], context.stop, tally));
    if (i + 1 == plan.states.size()) continue;
    HEARTH_RETURN_IF_ERROR(
        buffer.LoadAhead(plan.states[i + 1], context.stop, tally));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Forecast> ForecastMarius(const MariusOptions& options,
                                        const ForecastContext& context,
                                        const ForecastRequest& request) {
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<store::LoadedTopology> topology,
      context.dataset.LoadTopology(
          {store::Residency::kMemory, store::Residency::kMapped},
          context.stop));
  HEARTH_ASSIGN_OR_RETURN(store::ScannedFeatures features,
                          context.dataset.ScanFeatures(context.stop));
  features.file.reset();
  const NodePartitions partitions =
      NodePartitions::Make(*topology, features.rows.row_bytes,
                           options.partition_buffer_bytes, options.partitions);
  PartitionBuffer buffer(features, partitions);
  LoadTally tally;
  const size_t passes = std::min(request.num_training, kMostPasses);
  for (const Pass& pass : request.passes.first(passes)) {
    HEARTH_ASSIGN_OR_RETURN(
        const PassStates plan,
        PlanStates({.topology = *topology,
                    .partitions = partitions,
                    .row_bytes = features.rows.row_bytes,
                    .buffer_bytes = options.partition_buffer_bytes,
                    .batch_size = pass.batch_size,
                    .data_seed = pass.sampler.data_seed,
                    .epoch_key = pass.epoch_key},
                   SeedsOf(pass)));
    HEARTH_RETURN_IF_ERROR(AddReads(plan, context, buffer, tally));
  }
  HEARTH_ASSIGN_OR_RETURN(Forecast forecast, CountRows(context, request));
  forecast.bytes_read = static_cast<uint64_t>(tally.bytes) / passes;
  forecast.read_ops = static_cast<uint64_t>(tally.reads) / passes;
  forecast.notes.push_back(
      "Rows needed are counted on the whole graph. Strategy marius samples "
      "among the nodes in memory, and needs fewer.");
  return forecast;
}

MemoryEstimate EstimateMariusForecastMemory(const MariusOptions& /*options*/,
                                            const MemoryBasis& basis) {
  MemoryEstimate estimate = EstimateCountingMemory(basis);
  estimate.Add("cache", PartitionBuffer::OverheadBytes(basis.num_nodes()));
  return estimate;
}

}  // namespace hearth::strategy
