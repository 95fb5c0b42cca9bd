#include "engine/job/strategy_lease.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/byte_size.h"
#include "engine/base/status_macros.h"
#include "engine/io/row_reader.h"
#include "engine/job/job_partition.h"
#include "engine/store/row_checksums.h"
#include "engine/strategy/kinds.h"

namespace hearth::job {
namespace {

// The checksums of the rows that the strategy will read; null if it reads no
// single rows, or if all features were verified instead.
absl::StatusOr<std::shared_ptr<const io::RowCheck>> VerifyRows(
    const store::Dataset& dataset, const JobSizes& sizes, Observer& observer,
    const std::stop_token& stop) {
  if (sizes.rows == RowVerification::kNone) return nullptr;
  std::string reason = "their checksums do not fit into the memory limit";
  if (sizes.rows == RowVerification::kEachRow) {
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
  HEARTH_ASSIGN_OR_RETURN(JobSizes sizes,
                          FindJobSizes(environment, *dataset, use, stop));
  StrategyKey key = {.dataset_path = use.data.dataset_path,
                     .fingerprint = dataset->manifest().fingerprint,
                     .strategy = sizes.chosen.strategy,
                     .pipeline = sizes.chosen.pipeline,
                     .batches = std::move(sizes.batches),
                     .target_type = dataset->target_type()};
  if (use.partition != nullptr) key.partition = use.partition->lease.name();
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
                      *std::move(kept), sizes.cuts, warm);
  WarmStrategy& work = lease.work_;
  for (const strategy::BudgetCut& cut : sizes.cuts) {
    observer.OnLog(
        Severity::kInfo,
        absl::StrCat(strategy::Describe(cut), ", to fit the memory limit of ",
                     FormatByteSize(environment.memory.most_bytes())));
  }
  observer.OnLog(Severity::kInfo,
                 absl::StrCat("memory: at most ",
                              FormatByteSize(sizes.estimate.TotalBytes()), " (",
                              strategy::FormatShares(sizes.estimate), ")"));
  HEARTH_RETURN_IF_ERROR(CheckFits(environment, use, sizes.estimate));
  HEARTH_RETURN_IF_ERROR(
      environment.memory.Reserve(sizes.estimate, work.memory));
  std::unique_ptr<store::Dataset> opened = std::move(dataset);
  if (!warm) {
    work.dataset = std::move(opened);
    HEARTH_ASSIGN_OR_RETURN(std::shared_ptr<const io::RowCheck> row_check,
                            VerifyRows(*work.dataset, sizes, observer, stop));
    work.checks_rows = row_check != nullptr;
    HEARTH_ASSIGN_OR_RETURN(
        work.strategy,
        strategy::NewStrategy(
            sizes.chosen.strategy, sizes.chosen.pipeline, *work.dataset,
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
             .stop = stop}));
  }
  return lease;
}

std::vector<std::string> StrategyLease::VerifiedOnce() const {
  const strategy::StrategyKind& kind = strategy::KindOf(key_.strategy);
  std::vector<std::string> parts;
  if (kind.leaves_neighbors_on_disk && !key_.pipeline.sampling_gpu) {
    parts.push_back("neighbors");
  }
  if (kind.reads_single_rows && !work_.checks_rows) parts.push_back("rows");
  return parts;
}

void StrategyLease::Return() && {
  warm_strategies_->Keep(std::move(key_), std::move(work_));
}

}  // namespace hearth::job
