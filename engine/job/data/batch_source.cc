// A batch source, step by step:
//   1. Open: open the dataset, load labels and splits (opened_job.h).
//   2. TakeStrategy: find how large batches are, reserve memory, take a warm
//      strategy or make one (strategy_lease.h). Drop the labels.
//   3. PrepareEpoch, before each epoch: where a new period of epochs begins,
//      wait for its preparation on the other thread, prepare it (which finds
//      the plan made there), and start to prepare the next period.
//   4. RunPass, for each pass of the epoch: deliver its batches on the caller's
//      thread, and count the bytes read.
//   5. ReturnStrategy, or destruction: the preparation on the other thread ends
//      before the strategy that it uses goes.
#include "engine/job/data/batch_source.h"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "engine/base/process.h"
#include "engine/base/status.h"
#include "engine/io/read_queue.h"
#include "engine/job/data/auto_choice.h"
#include "engine/job/interface/observer.h"
#include "engine/plan/plan_store.h"
#include "engine/store/topology.h"
#include "engine/strategy/kinds.h"
#include "engine/train/train_step.h"

namespace hearth::job {

namespace {

// Passes are slow that take so many times as long as told, and so many seconds
// more.
constexpr double kSlow = 1.5;
constexpr double kLeastSlowSeconds = 0.5;
// Steps by which threads that prepare are nicer than those that train.
constexpr int kPreparingNice = 10;

}  // namespace

/// Calls Strategy::PrepareAhead, as long as there is more to prepare, on a
/// thread of its own, which starts at once and is stopped and joined by the
/// destructor. Thread-safe.
class AheadPreparation {
 public:
  /// `strategy`, and what the passes point to, outlive this.
  AheadPreparation(strategy::Strategy& strategy,
                   strategy::PassSequence sequence)
      : thread_([this, &strategy,
                 sequence = std::move(sequence)](const std::stop_token& stop) {
          const absl::Status status = CatchExceptions(
              [&] { return Prepare(strategy, sequence, stop); });
          if (!status.ok()) report_ = status;
        }) {}
  AheadPreparation(const AheadPreparation&) = delete;
  AheadPreparation& operator=(const AheadPreparation&) = delete;

  /// Log lines since the last call.
  std::vector<std::string> TakeLog() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return std::exchange(log_, {});
  }

  /// Waits for the end of the preparation; a requested `stop` stops it. Call
  /// once.
  absl::StatusOr<strategy::PreparationReport> Finish(
      const std::stop_token& stop) {
    const std::stop_callback forward(stop, [this] { thread_.request_stop(); });
    thread_.join();
    return std::move(report_);
  }

 private:
  absl::Status Prepare(strategy::Strategy& strategy,
                       const strategy::PassSequence& sequence,
                       const std::stop_token& stop) {
    // Training goes first.
    RaiseNice(kPreparingNice);
    do {
      report_ = strategy.PrepareAhead(sequence,
                                      {.log =
                                           [this](const std::string& text) {
                                             absl::MutexLock lock(&mutex_);
                                             log_.push_back(text);
                                           },
                                       .progress = nullptr,
                                       .durable = nullptr},
                                      stop);
    } while (report_.ok() && report_->more);
    return report_.status();
  }

  absl::Mutex mutex_;
  std::vector<std::string> log_ ABSL_GUARDED_BY(mutex_);
  // Written by the thread until it has ended.
  absl::StatusOr<strategy::PreparationReport> report_;
  // Last member: the thread ends before the report goes.
  std::jthread thread_;
};

absl::StatusOr<std::unique_ptr<BatchSource>> BatchSource::Open(
    const JobEnvironment& environment, const Options& options,
    Observer& observer, std::stop_token stop) {
  std::unique_ptr<BatchSource> source(
      new BatchSource(environment, options, observer, std::move(stop)));
  HEARTH_ASSIGN_OR_RETURN(
      source->opened_, OpenJob(environment, options, observer, source->stop_));
  return source;
}

BatchSource::BatchSource(const JobEnvironment& environment,
                         const Options& options, Observer& observer,
                         std::stop_token stop)
    : environment_(environment),
      options_(options),
      observer_(observer),
      stop_(std::move(stop)),
      running_(environment.running_jobs) {}

BatchSource::~BatchSource() = default;

const store::Dataset& BatchSource::dataset() const {
  return lease_.has_value() ? lease_->dataset() : *opened_->dataset;
}

strategy::MemoryEstimate BatchSource::opening_memory() const {
  strategy::MemoryEstimate most;
  if (opened_->partition.has_value()) most = opened_->partition->making_memory;
  if (opened_->rows.has_value() &&
      opened_->rows->making_memory.TotalBytes() > most.TotalBytes()) {
    most = opened_->rows->making_memory;
  }
  return most;
}

const absl::Status& BatchSource::Noted(const absl::Status& status) const {
  if (opened_->rows.has_value()) NoteDamage(*opened_->rows, status);
  return status;
}

absl::Status BatchSource::TakeStrategy(const ModelNeed& model) {
  HEARTH_RETURN_IF_ERROR(Choose(model));
  // From here on the reservation of the whole job includes this memory.
  opened_->memory = {};
  absl::StatusOr<StrategyLease> lease =
      StrategyLease::Take(environment_, opened_->dataset,
                          {.data = opened_->data,
                           .pipeline = options_.pipeline,
                           .labels = opened_->labels,
                           .passes = opened_->passes.Kinds(),
                           .embedding_width = options_.embedding_width,
                           .model = model,
                           .partition = opened_->PartitionOrNull(),
                           .row_dtype = row_dtype()},
                          observer_, stop_);
  HEARTH_RETURN_IF_ERROR(Noted(lease.status()));
  lease_ = *std::move(lease);
  opened_->labels = {};
  opened_->passes.SetBatches(lease_->batches());
  return absl::OkStatus();
}

absl::Status BatchSource::Choose(const ModelNeed& model) {
  BatchOptions& data = opened_->data;
  if (!data.automatic.has_value() || options_.job == nullptr) {
    return absl::OkStatus();
  }
  // A run that only tests has another price, and leaves no choice.
  const bool tests = options_.job->part == TrainPart::kTest;
  HEARTH_ASSIGN_OR_RETURN(
      automatic_, ChooseStrategy(environment_,
                                 {.dataset = *opened_->dataset,
                                  .labels = opened_->labels,
                                  .passes = opened_->passes,
                                  .data = data,
                                  .partition = opened_->PartitionOrNull(),
                                  .model = model,
                                  .job = *options_.job,
                                  .folder = tests ? "" : options_.folder},
                                 observer_, stop_));
  data.strategy =
      strategy::WithAutoBudgets(StrategyOf(*automatic_), dataset().manifest(),
                                environment_.memory.most_bytes());
  return absl::OkStatus();
}

void BatchSource::CompareWithChoice(const strategy::PassReport& pass) {
  if (!automatic_.has_value() || slow_epoch_seconds_ > 0) return;
  const bool is_first = compared_passes_++ == 0;
  for (const AutoCandidate& candidate : automatic_->candidates) {
    if (candidate.strategy != automatic_->strategy) continue;
    const double told =
        is_first ? candidate.first_epoch_seconds : candidate.epoch_seconds;
    if (told <= 0 || pass.seconds <= kSlow * told ||
        pass.seconds - told < kLeastSlowSeconds) {
      return;
    }
    // A first epoch may wait for what later ones have: they are as much slower
    // than told, not as long.
    slow_epoch_seconds_ = candidate.epoch_seconds * pass.seconds / told;
    observer_.OnLog(
        Severity::kWarning,
        absl::StrFormat("strategy auto: an epoch took %.1f s with %s, %.1f "
                        "times as long as the %.1f s that it was chosen for",
                        pass.seconds, automatic_->strategy, pass.seconds / told,
                        told));
  }
}

bool BatchSource::LeavesStrategy(int64_t trained_epochs, int64_t epochs) {
  if (slow_epoch_seconds_ <= 0 || options_.folder.empty() ||
      !PromisesMore(*automatic_, slow_epoch_seconds_,
                    epochs - trained_epochs)) {
    return false;
  }
  AutoChoice left = *automatic_;
  left.slow_epoch_seconds = slow_epoch_seconds_;
  left.trained_epochs = trained_epochs;
  const absl::Status kept =
      WriteAutoChoice(environment_.files, options_.folder, left);
  if (kept.ok()) return true;
  automatic_->is_final = true;
  observer_.OnLog(Severity::kWarning,
                  absl::StrCat("strategy auto stays with ",
                               automatic_->strategy, ": ", kept.message()));
  return false;
}

absl::StatusOr<strategy::PreparationReport> BatchSource::PreparePeriod(
    int64_t period) {
  absl::StatusOr<strategy::PreparationReport> report =
      lease_->strategy().Prepare(
          PreparesThroughout()
              ? passes().SequenceOf(opened_->data,
                                    passes().FirstEpochOf(period))
              : strategy::PassSequence(passes().OfPeriod(period)),
          ListenFor(observer_), stop_);
  Noted(report.status());
  return report;
}

absl::Status BatchSource::PrepareEpoch(int64_t epoch) {
  if (!strategy::KindOf(strategy()).prepares) {
    return absl::OkStatus();
  }
  if (PreparesThroughout()) return PrepareThroughout(opened_->data, epoch);
  const int64_t period = passes().PeriodOf(epoch);
  if (period == period_) return absl::OkStatus();
  HEARTH_ASSIGN_OR_RETURN(
      const std::optional<strategy::PreparationReport> ahead, FinishAhead());
  HEARTH_ASSIGN_OR_RETURN(strategy::PreparationReport report,
                          PreparePeriod(period));
  if (ahead.has_value() && ahead->plan == report.plan) report = *ahead;
  if (!report.plan.empty()) {
    preparations_.push_back({.first_epoch = static_cast<uint32_t>(
                                 passes().FirstEpochOf(period) + 1),
                             .preparation = std::move(report)});
  }
  period_ = period;
  if (period + 1 < passes().num_periods()) {
    ahead_ = std::make_unique<AheadPreparation>(lease_->strategy(),
                                                passes().OfPeriod(period + 1));
  }
  return absl::OkStatus();
}

bool BatchSource::PreparesThroughout() const {
  return strategy::KindOf(strategy()).prepares_throughout;
}

absl::Status BatchSource::PrepareJob(const BatchOptions& job, int64_t epoch) {
  if (PreparesThroughout()) return PrepareThroughout(job, epoch);
  return PrepareEpoch(job.EpochOfBatches(epoch));
}

// The first call covers all epochs that follow.
absl::Status BatchSource::PrepareThroughout(const BatchOptions& job,
                                            int64_t epoch) {
  if (period_ >= 0) return absl::OkStatus();
  strategy::PassSequence sequence = passes().SequenceOf(job, epoch);
  absl::StatusOr<strategy::PreparationReport> report =
      lease_->strategy().Prepare(sequence, ListenFor(observer_), stop_);
  HEARTH_RETURN_IF_ERROR(Noted(report.status()));
  const bool more = report->more;
  preparations_.push_back({.first_epoch = static_cast<uint32_t>(epoch + 1),
                           .preparation = *std::move(report)});
  period_ = passes().PeriodOf(job.EpochOfBatches(epoch));
  if (more) {
    ahead_ = std::make_unique<AheadPreparation>(lease_->strategy(),
                                                std::move(sequence));
  }
  return absl::OkStatus();
}

// Report of the preparation on the other thread, if there was one. Its error is
// only logged: where the plan is needed, making it fails again, or succeeds.
absl::StatusOr<std::optional<strategy::PreparationReport>>
BatchSource::FinishAhead() {
  if (ahead_ == nullptr) return std::nullopt;
  const absl::StatusOr<strategy::PreparationReport> report =
      ahead_->Finish(stop_);
  LogAhead();
  ahead_.reset();
  if (report.ok()) {
    if (!report->reused) observer_.OnDurable();
    return *report;
  }
  if (stop_.stop_requested()) return report.status();
  observer_.OnLog(Severity::kWarning,
                  absl::StrCat("preparing ahead: ", report.status().message()));
  return std::nullopt;
}

absl::StatusOr<const store::SelfLoops*> BatchSource::CountSelfLoops() {
  if (dataset().manifest().is_typed()) return nullptr;
  if (!self_loops_.has_value()) {
    HEARTH_ASSIGN_OR_RETURN(
        const std::unique_ptr<store::LoadedTopology> topology,
        dataset().LoadTopology(store::Residency::kMapped, stop_));
    HEARTH_ASSIGN_OR_RETURN(self_loops_,
                            store::SelfLoops::Count(*topology, stop_));
  }
  return self_loops_->empty() ? nullptr : &*self_loops_;
}

void BatchSource::LogAhead() {
  if (ahead_ == nullptr) return;
  for (const std::string& text : ahead_->TakeLog()) {
    observer_.OnLog(Severity::kInfo, absl::StrCat("ahead: ", text));
  }
}

absl::Status BatchSource::RunPass(const strategy::Pass& pass,
                                  const strategy::Strategy::Consumer& consumer,
                                  strategy::PassReport& report) {
  pass_.emplace(RunningPass{
      .start = {environment_.running_jobs.Now(), ProcessReadBytes()},
      .report = report});
  const int64_t reduced = environment_.read_queues.statistics().reduced_queues;
  const absl::Status status =
      lease_->strategy().Run(pass, consumer, stop_, report);
  AddBytesRead(pass_->start, report);
  pass_.reset();
  LogReducedQueues(reduced);
  return Noted(status);
}

void BatchSource::LogReducedQueues(int64_t reduced_before) {
  const io::ReadQueues& queues = environment_.read_queues;
  if (has_told_of_reduced_queues_ ||
      queues.statistics().reduced_queues == reduced_before) {
    return;
  }
  has_told_of_reduced_queues_ = true;
  observer_.OnLog(Severity::kWarning,
                  absl::StrCat("reading rows: ", queues.reduction(),
                               "; `hearth doctor` says what to set"));
}

strategy::PassReport BatchSource::PassSoFar() const {
  strategy::PassReport report = pass_->report;
  AddBytesRead(pass_->start, report);
  return report;
}

// Adds the bytes that the kernel read for the process, if only this job can
// have caused them.
void BatchSource::AddBytesRead(const ReadStart& start,
                               strategy::PassReport& report) const {
  if (report.bytes_read.has_value() ||
      !environment_.running_jobs.AloneSince(start.moment)) {
    return;
  }
  report.bytes_read = static_cast<int64_t>(ProcessReadBytes() - start.bytes);
}

void BatchSource::ReturnStrategy() {
  ahead_.reset();
  if (!lease_.has_value()) return;
  std::optional<plan::PlanLease> rows;
  if (opened_->rows.has_value()) rows = std::move(opened_->rows->lease);
  std::move(*lease_).Return(std::move(rows));
}

}  // namespace hearth::job
