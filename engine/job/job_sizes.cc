#include "engine/job/job_sizes.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/byte_size.h"
#include "engine/base/status_macros.h"
#include "engine/job/batch_measurement.h"
#include "engine/job/model_memory.h"
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
constexpr uint64_t kSmallPart = 64;
// Threads' stacks, queues, the job's own records: several times what they were
// seen to take.
constexpr uint64_t kRuntimeBytes = uint64_t{24} << 20;

// Memory of a history: its candidates, what is decided for them, their
// embeddings, and those of the batch that is trained.
uint64_t HistoryBytes(const StrategyUse& use,
                      const sample::HistoryCandidates& candidates,
                      const sample::BatchShape& batch) {
  const size_t layers = batch.edges.size();
  const auto of_batch = static_cast<uint64_t>(
      batch.nodes[layers - 1] * use.data.trainers * use.embedding_width);
  const bool keeps_gradients = !use.data.history->stop_gradients;
  return sample::HistoryCandidates::MemoryBytes(candidates.num_nodes()) +
         sample::HistoryDecisions::MemoryBytes(candidates.size()) +
         train::HistoryCache::MemoryBytes(
             candidates.size(), use.embedding_width, keeps_gradients) +
         (keeps_gradients ? 2 : 1) * sizeof(float) * of_batch;
}

uint64_t ChecksumBytes(const store::Dataset& dataset) {
  uint64_t bytes = 0;
  for (const store::NodeTypeEntry& type : dataset.manifest().node_types) {
    bytes += store::RowChecksumBytes(type.num_nodes);
  }
  return bytes;
}

// Chooses what fits: with the checksums of rows if they are wanted and fit.
class SizeChoice {
 public:
  SizeChoice(const JobEnvironment& environment, const store::Dataset& dataset,
             const StrategyUse& use, BatchBound batches)
      : limit_bytes_(environment.memory.most_bytes()),
        dataset_(dataset),
        use_(use),
        batches_(std::move(batches)),
        basis_(BasisOf(environment, dataset, use, batches_)) {
    AddJobShares(use, batches_, job_shares_);
  }

  absl::StatusOr<JobSizes> Choose() const {
    if (!strategy::KindOf(use_.data.strategy).reads_single_rows) {
      return ChooseFor(RowVerification::kNone);
    }
    absl::StatusOr<JobSizes> sizes = ChooseFor(RowVerification::kEachRow);
    if (sizes.ok() && sizes->estimate.TotalBytes() > limit_bytes_) {
      return ChooseFor(RowVerification::kOnce);
    }
    return sizes;
  }

 private:
  absl::StatusOr<JobSizes> ChooseFor(RowVerification rows) const {
    const strategy::StrategyOptions asked =
        strategy::WithMeasuredBudgets(use_.data.strategy, basis_);
    JobSizes sizes = {.batches = batches_,
                      .chosen = {.strategy = asked, .pipeline = use_.pipeline},
                      .cuts = {},
                      .estimate = {},
                      .rows = rows};
    if (!use_.data.strict_budgets) {
      const std::vector<strategy::Budget> budgets =
          strategy::BudgetsOf(asked, basis_);
      absl::Status status;
      const std::vector<uint64_t> amounts = strategy::FitBudgets(
          budgets, limit_bytes_, [&](absl::Span<const uint64_t> tried) {
            const auto estimate =
                Estimate(strategy::WithBudgets(asked, basis_, tried), rows);
            status.Update(estimate.status());
            return estimate.ok() ? estimate->TotalBytes() : 0;
          });
      HEARTH_RETURN_IF_ERROR(status);
      sizes.chosen = strategy::WithBudgets(asked, basis_, amounts);
      sizes.cuts = strategy::CutsOf(budgets, amounts);
    }
    HEARTH_ASSIGN_OR_RETURN(sizes.estimate, Estimate(sizes.chosen, rows));
    return sizes;
  }

  absl::StatusOr<MemoryEstimate> Estimate(
      const strategy::StrategyConfiguration& chosen,
      RowVerification rows) const {
    strategy::MemoryBasis basis = basis_;
    basis.pipeline = chosen.pipeline;
    HEARTH_ASSIGN_OR_RETURN(MemoryEstimate estimate,
                            strategy::EstimateMemory(chosen.strategy, basis));
    for (const strategy::MemoryShare& share : job_shares_.shares) {
      estimate.shares.push_back(share);
    }
    if (rows == RowVerification::kEachRow) {
      estimate.Add("row checksums", ChecksumBytes(dataset_), /*kept=*/true);
    }
    return estimate;
  }

  const uint64_t limit_bytes_;
  const store::Dataset& dataset_;
  const StrategyUse& use_;
  const BatchBound batches_;
  const strategy::MemoryBasis basis_;
  MemoryEstimate job_shares_;
};

}  // namespace

absl::Status CheckFits(const JobEnvironment& environment,
                       const StrategyUse& use, const MemoryEstimate& estimate) {
  const uint64_t bytes = estimate.TotalBytes();
  const uint64_t most = environment.memory.most_bytes();
  if (bytes <= most || use.data.strict_budgets) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the job needs at least ", FormatByteSize(bytes), " of memory (", bytes,
      " bytes: ", strategy::FormatShares(estimate),
      ") with every budget cut as far as it goes, but jobs may take ",
      FormatByteSize(most), " (the daemon's memory limit); ",
      use.model.kept_bytes > bytes / 2
          ? DescribeModel(use.model.parameter_bytes, use.model.kept_bytes)
          : "a smaller data.batch_size, fewer fan-outs or a smaller model need "
            "less"));
}

strategy::MemoryBasis BasisOf(const JobEnvironment& environment,
                              const store::Dataset& dataset,
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
          .has_history = use.data.history.has_value(),
          .data_disks = static_cast<int>(environment.data_disks.size())};
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
  estimate.Add("model", use.model.bytes(batches.WithMargin()));
  estimate.Add("runtime", kRuntimeBytes);
}

void AddGpuShare(const train::TrainOptions& options,
                 const train::TrainStep& step, const sample::BatchShape& shape,
                 MemoryEstimate& estimate) {
  const uint64_t bytes = step.GpuBytes(shape);
  if (!options.gpu.has_value() || bytes == 0) return;
  estimate.Add("model", bytes, /*kept=*/false, {.gpu = options.gpu});
}

absl::StatusOr<JobSizes> FindJobSizes(const JobEnvironment& environment,
                                      const store::Dataset& dataset,
                                      const StrategyUse& use,
                                      std::stop_token stop) {
  const MeasuredPasses passes = {
      .dataset = dataset, .labels = use.labels, .passes = use.passes};
  if (!strategy::KindOf(use.data.strategy).needs_measured_batches) {
    HEARTH_ASSIGN_OR_RETURN(
        JobSizes sizes,
        SizeChoice(environment, dataset, use, BoundBatches(passes)).Choose());
    if (sizes.estimate.TotalBytes() <=
        environment.memory.most_bytes() / kSmallPart) {
      return sizes;
    }
  }
  HEARTH_ASSIGN_OR_RETURN(BatchBound batches,
                          environment.batch_measurement.Measure(
                              passes, use.pipeline.samplers, std::move(stop)));
  return SizeChoice(environment, dataset, use, std::move(batches)).Choose();
}

}  // namespace hearth::job
