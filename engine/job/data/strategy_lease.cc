#include "engine/job/data/strategy_lease.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/byte_size.h"
#include "engine/base/status.h"
#include "engine/io/row_reader.h"
#include "engine/job/data/seed_partition.h"
#include "engine/job/memory/batch_measurement.h"
#include "engine/job/memory/memory_ledger.h"
#include "engine/sample/history.h"
#include "engine/store/feature_rows.h"
#include "engine/strategy/kinds.h"
#include "engine/train/history_cache.h"

namespace hearth::job {

namespace {

using strategy::BatchBound;
using strategy::MemoryEstimate;

// A bound by the fan-outs is good enough if its memory is below this fraction
// (1 / kSmallPart) of what jobs may take.
constexpr uint64_t kSmallPart = 64;
// Threads' stacks, queues and the job's records: several times what was
// measured.
constexpr uint64_t kRuntimeBytes = uint64_t{24} << 20;

// Memory of a history: its candidates, the decisions for them, their
// embeddings, and embeddings of the batch that is trained.
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

// The pipeline that was asked for, with the place of the topology chosen.
strategy::PipelineOptions PipelineOf(const JobEnvironment& environment,
                                     const store::Dataset& dataset,
                                     const StrategyUse& use) {
  return strategy::WithAutoTopology(use.data.strategy, use.pipeline,
                                    dataset.manifest(),
                                    environment.memory.most_bytes());
}

// Chooses a configuration that fits, with the checksums of rows if the strategy
// reads single rows and they fit.
class MemoryFitting {
 public:
  MemoryFitting(const JobEnvironment& environment,
                const store::Dataset& dataset, const StrategyUse& use,
                BatchBound batches)
      : limit_bytes_(environment.memory.most_bytes()),
        dataset_(dataset),
        use_(use),
        batches_(std::move(batches)),
        basis_(BasisOf(environment, dataset, use, batches_)) {
    basis_.pipeline = PipelineOf(environment, dataset, use);
    AddJobShares(use, batches_, job_shares_);
  }

  absl::StatusOr<MemoryFit> Fit() const {
    // No single rows of a shard are read.
    if (!strategy::KindOf(use_.data.strategy).reads_single_rows ||
        dataset_.manifest().is_sharded()) {
      return FitWith(RowVerification::kNone);
    }
    absl::StatusOr<MemoryFit> fit = FitWith(RowVerification::kEachRow);
    if (fit.ok() && fit->estimate.TotalBytes() > limit_bytes_) {
      return FitWith(RowVerification::kOnce);
    }
    return fit;
  }

 private:
  absl::StatusOr<MemoryFit> FitWith(RowVerification rows) const {
    const strategy::StrategyOptions asked =
        strategy::WithMeasuredBudgets(use_.data.strategy, basis_);
    MemoryFit fit = {.batches = batches_,
                     .chosen = {.strategy = asked, .pipeline = basis_.pipeline},
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
      fit.chosen = strategy::WithBudgets(asked, basis_, amounts);
      fit.cuts = strategy::CutsOf(budgets, amounts);
    }
    HEARTH_ASSIGN_OR_RETURN(fit.estimate, Estimate(fit.chosen, rows));
    return fit;
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
  strategy::MemoryBasis basis_;
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
    // An upper bound: as if every pass were run in each epoch.
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
  // Three copies: in the split, in the order, and in the pass. With a
  // partition, their places, too.
  const uint64_t copies = use.partition != nullptr ? 4 : 3;
  estimate.Add("seeds", copies * sizeof(store::NodeId) * seeds);
  for (const strategy::Pass& pass : use.passes) {
    if (pass.history == nullptr) continue;
    estimate.Add("histories", HistoryBytes(use, *pass.history->candidates,
                                           batches.WithMargin()));
  }
  if (use.partition != nullptr) {
    // A warm strategy may keep the partition.
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

absl::StatusOr<MemoryFit> FitToMemory(const JobEnvironment& environment,
                                      const store::Dataset& dataset,
                                      const StrategyUse& use,
                                      std::stop_token stop) {
  const MeasuredPasses passes = {
      .dataset = dataset, .labels = use.labels, .passes = use.passes};
  if (!strategy::KindOf(use.data.strategy).needs_measured_batches) {
    HEARTH_ASSIGN_OR_RETURN(
        MemoryFit fit,
        MemoryFitting(environment, dataset, use, BoundBatches(passes)).Fit());
    if (fit.estimate.TotalBytes() <=
        environment.memory.most_bytes() / kSmallPart) {
      return fit;
    }
  }
  HEARTH_ASSIGN_OR_RETURN(
      BatchBound batches,
      environment.batch_measurement.Measure(
          passes, PipelineOf(environment, dataset, use), std::move(stop)));
  return MemoryFitting(environment, dataset, use, std::move(batches)).Fit();
}

namespace {

// Loads the checksums of the rows that the strategy will read. Null if it reads
// no single rows, or if all features were verified instead.
absl::StatusOr<std::shared_ptr<const io::RowCheck>> VerifyRows(
    const store::Dataset& dataset, const MemoryFit& fit, Observer& observer,
    const std::stop_token& stop) {
  if (fit.rows == RowVerification::kNone) return nullptr;
  std::string reason = "their checksums do not fit into the memory limit";
  if (fit.rows == RowVerification::kEachRow) {
    absl::StatusOr<std::unique_ptr<io::RowCheck>> checksums =
        dataset.LoadRowChecksums(stop);
    if (checksums.ok()) return *std::move(checksums);
    if (absl::IsDataLoss(checksums.status()) ||
        absl::IsCancelled(checksums.status())) {
      return checksums.status();
    }
    reason = std::string(checksums.status().message());
  }
  observer.OnLog(
      Severity::kInfo,
      absl::StrCat("rows are not checked one by one (", reason,
                   "): all features are verified before the first batch"));
  HEARTH_RETURN_IF_ERROR(dataset.VerifyFeatures(stop));
  return nullptr;
}

}  // namespace

absl::StatusOr<StrategyLease> StrategyLease::Take(
    const JobEnvironment& environment, std::unique_ptr<store::Dataset>& dataset,
    const Use& use, Observer& observer, std::stop_token stop) {
  HEARTH_ASSIGN_OR_RETURN(MemoryFit fit,
                          FitToMemory(environment, *dataset, use, stop));
  StrategyKey key = {.dataset_path = use.data.dataset_path,
                     .fingerprint = dataset->manifest().fingerprint,
                     .strategy = fit.chosen.strategy,
                     .pipeline = fit.chosen.pipeline,
                     .batches = std::move(fit.batches),
                     .target_type = dataset->target_type(),
                     .row_dtype = use.row_dtype};
  if (use.partition != nullptr) key.partition = use.partition->lease.name();
  key.own_nodes = use.data.own_nodes.Name();
  std::optional<WarmStrategy> kept = environment.warm_strategies.Take(key);
  const bool warm = kept.has_value();
  if (!warm) {
    HEARTH_ASSIGN_OR_RETURN(ScratchFolder scratch,
                            environment.warm_strategies.NewScratch());
    kept = WarmStrategy{.memory = {},
                        .dataset = nullptr,
                        .scratch = std::move(scratch),
                        .strategy = nullptr,
                        .checks_rows = false};
  }
  StrategyLease lease(environment.warm_strategies, std::move(key),
                      *std::move(kept), fit.cuts, warm);
  WarmStrategy& work = lease.work_;
  for (const strategy::BudgetCut& cut : fit.cuts) {
    observer.OnLog(
        Severity::kInfo,
        absl::StrCat(strategy::Describe(cut), ", to fit the memory limit of ",
                     FormatByteSize(environment.memory.most_bytes())));
  }
  observer.OnLog(Severity::kInfo,
                 absl::StrCat("memory: at most ",
                              FormatByteSize(fit.estimate.TotalBytes()), " (",
                              strategy::FormatShares(fit.estimate), ")"));
  HEARTH_RETURN_IF_ERROR(CheckFits(environment, use, fit.estimate));
  HEARTH_RETURN_IF_ERROR(environment.memory.Reserve(fit.estimate, work.memory));
  std::unique_ptr<store::Dataset> opened = std::move(dataset);
  if (!warm) {
    work.dataset = std::move(opened);
    HEARTH_ASSIGN_OR_RETURN(std::shared_ptr<const io::RowCheck> row_check,
                            VerifyRows(*work.dataset, fit, observer, stop));
    work.checks_rows = row_check != nullptr;
    HEARTH_ASSIGN_OR_RETURN(
        work.strategy,
        strategy::NewStrategy(
            fit.chosen.strategy, fit.chosen.pipeline, *work.dataset,
            {.read_queues = environment.read_queues,
             .clock = environment.clock,
             .scratch_folder = work.scratch.path(),
             .plans = &environment.plans,
             .data_disks = environment.data_disks,
             .files = environment.files,
             .gpu = environment.gpu,
             .gpus = environment.gpus,
             .row_check = std::move(row_check),
             .partition =
                 use.partition == nullptr ? nullptr : use.partition->partition,
             .disk_profile =
                 [environment,
                  &dataset = *work.dataset](std::stop_token profile_stop) {
                   return ProfileOf(environment, dataset,
                                    std::move(profile_stop));
                 },
             .on_scan =
                 [environment, &dataset = *work.dataset](double rate) {
                   NoteScan(environment, dataset, rate);
                 },
             .stop = stop}));
  }
  return lease;
}

std::vector<std::string> StrategyLease::VerifiedOnce() const {
  std::vector<std::string> parts;
  if (strategy::LeavesNeighborsOnDisk(key_.strategy, key_.pipeline)) {
    parts.push_back("neighbors");
  }
  if (strategy::KindOf(key_.strategy).reads_single_rows && !work_.checks_rows &&
      !work_.dataset->manifest().is_sharded())
    parts.push_back("rows");
  return parts;
}

void StrategyLease::Return(std::optional<plan::PlanLease> rows) && {
  // Another job may have its rows from other machines.
  if (work_.dataset->manifest().is_sharded()) return;
  warm_strategies_->Keep(std::move(key_), std::move(work_), std::move(rows));
}

}  // namespace hearth::job
