#ifndef HEARTH_ENGINE_JOB_RUN_SHARED_PASS_H_
#define HEARTH_ENGINE_JOB_RUN_SHARED_PASS_H_

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/job/data/batch_source.h"
#include "engine/job/interface/job_environment.h"
#include "engine/job/interface/observer.h"
#include "engine/job/interface/report.h"
#include "engine/job/interface/train_job_options.h"
#include "engine/job/interface/train_metrics.h"
#include "engine/job/memory/memory_ledger.h"
#include "engine/job/run/model_trainer.h"
#include "engine/job/run/train_run.h"
#include "engine/metrics/registry.h"

namespace hearth::job {

/// An epoch of one of several jobs that have ended theirs together.
struct JobEpoch {
  std::string job;
  const EpochReport& report;
  /// The answer: why the job cannot go on.
  absl::Status status = absl::OkStatus();
};

/// The time series of all groups.
class SharedPassMetrics {
 public:
  explicit SharedPassMetrics(metrics::Registry& registry);

  /// So many more jobs are on board, or fewer. Thread-safe.
  void AddJobs(int64_t more) ABSL_LOCKS_EXCLUDED(mutex_);

  std::unique_ptr<metrics::Counter> bytes_shared;
  std::unique_ptr<metrics::Counter> wait_seconds;

 private:
  absl::Mutex mutex_;
  int64_t num_jobs_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<metrics::Gauge> members_;
};

struct SharedPassOptions {
  /// Jobs that share a pass, at most; 1 = none do.
  int max_jobs = 16;
  /// Processors that members share: as many make a step at a time as have
  /// train_threads of them.
  int processors = 1;
  /// How long one waits for jobs that are known to come. Each writes its state
  /// first, which on a busy disk was seen to take more than 2 s.
  absl::Duration gather = absl::Seconds(10);
  /// Whether a job may go on by itself now, on a place of its own, which it
  /// then has; null = none may.
  std::function<bool(const std::string& job)> may_train_alone = nullptr;
  /// Passes on the reports of epochs that ended together, before any of the
  /// jobs goes on; null = Observer::OnEpoch of each.
  std::function<void(absl::Span<JobEpoch>)> report = nullptr;
};

/// A job that may come on board.
struct SharedPassCandidate {
  std::string job;
  /// TrainJobOptions::sharing_key.
  std::string key;
  /// Its next epoch (BatchOptions::EpochOfBatches), if that is known.
  std::optional<int64_t> epoch;
  /// TrainJobOptions::join.
  bool join = false;
};

/// Everything that a job brings; all outlives its request.
struct SharedPassRequest {
  const JobEnvironment& environment;
  const TrainJobOptions& options;
  Observer& observer;
  TrainMetrics& metrics;
  MemorySampler& memory;
  std::stop_token stop;
  double begin_seconds = 0;
  /// State that an earlier request brings along: see AttachedJob.
  bool is_running = false;
  std::optional<double> first_batch_seconds = {};
  Peers peers = {};
};

/// The result of a request.
struct SharedPassResult {
  absl::StatusOr<TrainReport> result;
  /// Instead of the result: the job goes on by itself, from its checkpoint,
  /// with these options and what it brings along.
  std::optional<TrainJobOptions> alone = {};
  std::optional<double> first_batch_seconds = {};
  Peers peers = {};
};

/// Seconds that a member took in an epoch.
struct EpochSeconds {
  double busy = 0;
  /// While all others waited for it alone.
  double waited_for = 0;
};

/// The member that all would do better without: its work takes more than twice
/// the median of the others', and they waited for it, together, longer than
/// another pass over the data takes. Absent: there is none.
std::optional<size_t> FindSlowest(absl::Span<const EpochSeconds> jobs,
                                  double pass_seconds);

/// Jobs that share their passes over the data: one thread drives a TrainRun,
/// each job's member works on the thread that called Train. It ends when nobody
/// is on board or expected. Thread-safe.
class SharedPassGroup final : private JobHost {
 public:
  /// `metrics` may be null. All outlive this.
  SharedPassGroup(const SharedPassOptions& options, std::string name,
                  SharedPassMetrics* metrics)
      : options_(options), name_(std::move(name)), metrics_(metrics) {}
  /// REQUIRES: all calls of Train have returned.
  ~SharedPassGroup() override ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string& name() const { return name_; }

  /// Whether a job could come on board soon, without keeping the others
  /// waiting.
  bool HasPlaceFor(const SharedPassCandidate& job) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// None of those that are expected comes.
  void ForgetAll() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Holds a place for a job that will call Train; false if there is none.
  bool Expect(const SharedPassCandidate& job) ABSL_LOCKS_EXCLUDED(mutex_);

  /// The job does not come.
  void Forget(const std::string& job) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Takes an expected job along, from its checkpoint or its start to its end,
  /// as RunTrainJob, or until it goes on by itself.
  SharedPassResult Train(const SharedPassRequest& request)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Whether it takes nobody along any more.
  bool IsOver() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // A job that has come. Calls are the driver's to make and the job's thread's
  // to do; between them the slot's content belongs to the driver.
  struct Slot {
    explicit Slot(const SharedPassRequest& request)
        : request(request), options(request.options) {}

    const SharedPassRequest request;
    // With the first_epoch_key that was chosen.
    TrainJobOptions options;
    std::unique_ptr<ModelTrainer> trainer;
    std::optional<AttachedJob> job;
    // Whether it leaves to go on by itself.
    bool trains_alone = false;
    // The rest is guarded by mutex_.
    bool attached = false;
    const std::function<absl::Status()>* call = nullptr;
    // Whether the driver tells its observer something.
    bool is_told = false;
    absl::Status status;
    double done_seconds = 0;
    EpochSeconds epoch_seconds;
    std::optional<absl::StatusOr<TrainReport>> result;
    absl::CondVar wake;
  };
  using Slots = std::vector<Slot*>;
  class AllObservers;

  // On the driver's thread.
  void Drive();
  absl::Status RunData();
  Slots AwaitJobs(bool someone_attached);
  std::vector<absl::Status> CallAll(
      const Slots& slots, absl::FunctionRef<absl::Status(Slot&)> call);
  absl::Status MakeTrainer(Slot& slot);
  absl::Status Join(Slot& slot, int64_t epoch);
  void Finish(Slot& slot, absl::StatusOr<TrainReport> result);
  Slot& SlotOf(const AttachedJob& job);
  Slots Unfinished() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::vector<AttachedJob*> Attach(std::optional<int64_t> next_epoch) override;
  std::vector<absl::Status> ForAll(
      absl::Span<AttachedJob* const> jobs,
      absl::FunctionRef<absl::Status(AttachedJob&)> call) override;
  int max_steps() const override { return max_steps_; }
  void Report(absl::Span<EndedEpoch> epochs) override;
  AttachedJob* PickSlowest(double pass_seconds) override;
  void OnShared(int64_t bytes) override;
  void Detach(AttachedJob& job, absl::StatusOr<TrainReport> result) override;

  // On any thread.
  void OnStop();
  void SetResult(Slot& slot, absl::StatusOr<TrainReport> result)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Work(Slot& slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  size_t NumPlaces() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WakeAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const SharedPassOptions& options_;
  const std::string name_;
  SharedPassMetrics* const metrics_;

  // The driver's.
  const JobEnvironment* environment_ = nullptr;
  BatchSource* source_ = nullptr;
  int max_steps_ = 1;
  int64_t num_epochs_ = 1;
  double epoch_began_ = 0;

  mutable absl::Mutex mutex_;
  // Signalled when a job comes, is not expected any more, or has done a call.
  absl::CondVar driver_;
  std::list<std::unique_ptr<Slot>> slots_ ABSL_GUARDED_BY(mutex_);
  // Jobs that will come, and whether they were waited for.
  std::map<std::string, bool> expected_ ABSL_GUARDED_BY(mutex_);
  // The epoch that those who come now begin with; absent while all can be
  // chosen from.
  std::optional<int64_t> next_epoch_ ABSL_GUARDED_BY(mutex_);
  // Whether somebody has left since others could come on board.
  bool has_free_place_ ABSL_GUARDED_BY(mutex_) = false;
  // Stops the data run, once `stopping_`.
  std::stop_source stop_ ABSL_GUARDED_BY(mutex_);
  // Whether all that were there have been asked to stop: who comes later, and
  // was not, waits for the next data run.
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  // Ends first.
  std::jthread thread_;
};

/// The groups of this process: train jobs with equal data share their passes.
/// Thread-safe.
class SharedPassGroups {
 public:
  /// `registry` outlives this; null = no time series.
  SharedPassGroups(SharedPassOptions options, metrics::Registry* registry);
  SharedPassGroups(const SharedPassGroups&) = delete;
  SharedPassGroups& operator=(const SharedPassGroups&) = delete;

  /// The group under way that has room for a job, as Expect; null = none.
  const void* GroupWithPlaceFor(const SharedPassCandidate& job) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Holds a place for a job that will be taken along, once: in a group that
  /// is under way, or, if it may begin one, in one of its own. What tells the
  /// group from others as long as it is there; null = there is no place.
  const void* Expect(const SharedPassCandidate& job, bool may_begin = true)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// The job has ended, taken along or not. Nothing happens to one that was not
  /// expected.
  void Forget(const std::string& job) ABSL_LOCKS_EXCLUDED(mutex_);

  /// SharedPassOptions::max_jobs.
  int max_jobs() const { return options_.max_jobs; }

  /// No job that is expected comes: nobody waits for them any more.
  void ForgetAll() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Waits until all groups have ended, with their threads. REQUIRES: all
  /// calls of Train have returned, and no others come.
  void AwaitEnd() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Takes a job along (SharedPassGroup::Train); one that was not expected in a
  /// group of its own.
  absl::StatusOr<TrainReport> Train(const SharedPassRequest& request)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const SharedPassOptions options_;
  const std::unique_ptr<SharedPassMetrics> metrics_;
  mutable absl::Mutex mutex_;
  // Those that are over go when the next one begins.
  std::list<std::shared_ptr<SharedPassGroup>> groups_ ABSL_GUARDED_BY(mutex_);
  // The group of each job that is expected or on board.
  std::map<std::string, std::shared_ptr<SharedPassGroup>> of_jobs_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_RUN_SHARED_PASS_H_
