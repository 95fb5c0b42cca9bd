#include "engine/job/job_sizes.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/job/batch_measurement.h"
#include "engine/sample/history.h"
#include "engine/store/row_checksums.h"
#include "engine/strategy/kinds.h"
#include "engine/train/history_cache.h"

namespace hearth::job {
namespace {

using strategy::BatchBound;
using strategy::MemoryEstimate;

// An estimate from the fan-outs alone is good enough if it is below this part
// of what jobs may take.
constexpr uint64_t kSmallPart = 16;
// Threads' stacks, queues, the job's own records.
constexpr uint64_t kRuntimeBytes = uint64_t{48} << 20;

absl::StatusOr<MemoryEstimate> Estimate(const store::Dataset& dataset,
                                        const StrategyUse& use,
                                        const BatchBound& batches) {
  HEARTH_ASSIGN_OR_RETURN(
      MemoryEstimate estimate,
      strategy::EstimateMemory(use.data.strategy,
                               BasisOf(dataset, use, batches)));
  AddJobShares(use, batches, estimate);
  return estimate;
}

// Memory of a history: its candidates, what is decided for them, their
// embeddings, and those of the batch that is trained.
uint64_t HistoryBytes(const StrategyUse& use,
                      const sample::HistoryCandidates& candidates,
                      const sample::BatchShape& batch) {
  const size_t layers = batch.edges.size();
  const auto of_batch = static_cast<uint64_t>(
      batch.nodes[layers - 1] * use.data.trainers * use.embedding_width);
  return sample::HistoryCandidates::MemoryBytes(candidates.num_nodes()) +
         sample::HistoryDecisions::MemoryBytes(candidates.size()) +
         train::HistoryCache::MemoryBytes(candidates.size(),
                                          use.embedding_width) +
         sizeof(float) * of_batch;
}

void ChooseVerification(const JobEnvironment& environment,
                        const store::Dataset& dataset, const StrategyUse& use,
                        JobSizes& sizes) {
  if (!strategy::KindOf(use.data.strategy).reads_single_rows) return;
  uint64_t bytes = 0;
  for (const store::NodeTypeEntry& type : dataset.manifest().node_types) {
    bytes += store::RowChecksumBytes(type.num_nodes);
  }
  if (sizes.estimate.TotalBytes() + bytes > environment.memory.limit_bytes()) {
    sizes.rows = RowVerification::kOnce;
    return;
  }
  sizes.rows = RowVerification::kEachRow;
  sizes.estimate.Add("row checksums", bytes, /*kept=*/true);
}

}  // namespace

strategy::MemoryBasis BasisOf(const store::Dataset& dataset,
                              const StrategyUse& use,
                              const BatchBound& batches) {
  int64_t num_batches = 0;
  int64_t total_batches = 0;
  for (const strategy::Pass& pass : use.passes) {
    const int64_t of_pass =
        strategy::NumBatches(pass.order->size(), pass.batch_size);
    num_batches = std::max(num_batches, of_pass);
    // As if each of them were one of training.
    total_batches += of_pass * use.data.epochs;
  }
  return {.manifest = dataset.manifest(),
          .pipeline = use.pipeline,
          .batches = batches,
          .shards = static_cast<int>(use.data.trainers),
          .num_batches = num_batches,
          .total_batches = total_batches,
          .prepares_ahead = use.data.refresh_epochs > 0,
          .has_history = use.data.history.has_value()};
}

void AddJobShares(const StrategyUse& use, const BatchBound& batches,
                  MemoryEstimate& estimate) {
  uint64_t seeds = 0;
  for (const strategy::Pass& pass : use.passes) {
    seeds += static_cast<uint64_t>(pass.order->size());
  }
  // The split's, those in order, and those of the pass.
  estimate.Add("seeds", 3 * sizeof(store::NodeId) * seeds);
  for (const strategy::Pass& pass : use.passes) {
    if (pass.history == nullptr) continue;
    estimate.Add("histories", HistoryBytes(use, *pass.history->candidates,
                                           batches.WithMargin()));
  }
  if (use.partition != nullptr) {
    // A warm strategy may keep it.
    estimate.Add("partition", use.partition->partition->memory_bytes(),
                 /*kept=*/true);
  }
  estimate.Add("model", use.model_bytes(batches.WithMargin()));
  estimate.Add("runtime", kRuntimeBytes);
}

absl::StatusOr<JobSizes> FindJobSizes(const JobEnvironment& environment,
                                      const store::Dataset& dataset,
                                      const StrategyUse& use,
                                      std::stop_token stop) {
  const MeasuredPasses passes = {
      .dataset = dataset, .labels = use.labels, .passes = use.passes};
  if (!strategy::KindOf(use.data.strategy).needs_measured_batches) {
    JobSizes sizes = {.batches = BoundBatches(passes), .estimate = {}};
    HEARTH_ASSIGN_OR_RETURN(sizes.estimate,
                            Estimate(dataset, use, sizes.batches));
    if (sizes.estimate.TotalBytes() <=
        environment.memory.limit_bytes() / kSmallPart) {
      ChooseVerification(environment, dataset, use, sizes);
      return sizes;
    }
  }
  JobSizes sizes;
  HEARTH_ASSIGN_OR_RETURN(sizes.batches,
                          environment.batch_measurement.Measure(
                              passes, use.pipeline.samplers, std::move(stop)));
  HEARTH_ASSIGN_OR_RETURN(sizes.estimate,
                          Estimate(dataset, use, sizes.batches));
  ChooseVerification(environment, dataset, use, sizes);
  return sizes;
}

}  // namespace hearth::job
