#ifndef HEARTH_ENGINE_JOB_RUN_SHARED_PASS_H_
#define HEARTH_ENGINE_JOB_RUN_SHARED_PASS_H_

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
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
#include "engine/job/interface/pass_board.h"
#include "engine/job/interface/report.h"
#include "engine/job/interface/train_job_options.h"
#include "engine/job/interface/train_metrics.h"
#include "engine/job/memory/memory_ledger.h"
#include "engine/job/run/heard_turns.h"
#include "engine/job/run/member.h"
#include "engine/job/run/train_run.h"
#include "engine/metrics/registry.h"

/// Train jobs that share their passes over equal data (users call them a
/// convoy): a group with its thread (SharedPassGroup), and the table of all
/// groups of the process (SharedPassGroups).

namespace hearth::job {

/// Report of an epoch that one of several jobs has ended; all of them ended
/// theirs at the same time.
struct JobEpoch {
  std::string job;
  const EpochReport& report;
  /// Set by SharedPassOptions::report: an error ends the job.
  absl::Status status = absl::OkStatus();
};

/// Time series of all groups.
class SharedPassMetrics {
 public:
  explicit SharedPassMetrics(metrics::Registry& registry);

  /// Adds `more` jobs, or removes if negative, to the number of jobs in groups.
  /// Thread-safe.
  void AddJobs(int64_t more) ABSL_LOCKS_EXCLUDED(mutex_);

  std::unique_ptr<metrics::Counter> bytes_shared;
  std::unique_ptr<metrics::Counter> wait_seconds;

 private:
  absl::Mutex mutex_;
  int64_t num_jobs_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<metrics::Gauge> members_;
};

struct SharedPassOptions {
  /// Maximum number of jobs that share a pass; 1 = no job shares.
  int max_jobs = 16;
  /// Processors that the jobs of a group share: processors / train_threads jobs
  /// make a step at a time.
  int processors = 1;
  /// Maximum time to wait for jobs that are expected. Each job writes its state
  /// first, which took more than 2 s on a busy disk.
  absl::Duration gather = absl::Seconds(10);
  /// Tells whether a job may train alone from now on, in a place of its own,
  /// and gives it that place; null = no job may.
  std::function<bool(const std::string& job)> may_train_alone = nullptr;
  /// Passes on the reports of epochs that ended together, before any of the
  /// jobs continues; null = Observer::OnEpoch of each job.
  std::function<void(absl::Span<JobEpoch>)> report = nullptr;
};

/// A job that may join a group.
struct SharedPassCandidate {
  std::string job;
  /// TrainJobOptions::sharing_key.
  std::string key;
  /// Next epoch of the job (BatchOptions::EpochOfBatches), if known.
  std::optional<int64_t> epoch;
  /// TrainJobOptions::join.
  bool join = false;
};

/// Arguments of SharedPassGroups::Train; all objects outlive the call.
struct SharedPassRequest {
  const JobEnvironment& environment;
  const TrainJobOptions& options;
  Observer& observer;
  TrainMetrics& metrics;
  MemorySampler& memory;
  std::stop_token stop;
  double begin_seconds = 0;
  /// State of a job that comes from another group: see AttachedJob.
  bool is_running = false;
  std::optional<double> first_batch_seconds = {};
  Peers peers = {};
};

/// Result of SharedPassGroup::Train.
struct SharedPassResult {
  absl::StatusOr<TrainReport> result;
  /// Where the result is CANCELLED: options with which the job trains alone
  /// from now on, from its checkpoint and with the state below.
  std::optional<TrainJobOptions> alone = {};
  std::optional<double> first_batch_seconds = {};
  Peers peers = {};
};

/// Seconds of a job's thread in an epoch.
struct EpochSeconds {
  double busy = 0;
  /// Seconds in which all other jobs waited for this job alone.
  double waited_for = 0;
};

/// Index of the job without which all would be faster: it was busy for more
/// than twice the median of the others, and they waited for it, together,
/// longer than another pass over the data takes. Absent if there is none.
std::optional<size_t> FindSlowest(absl::Span<const EpochSeconds> jobs,
                                  double pass_seconds);

/// Jobs that share their passes over the data. One thread, the driver, drives a
/// TrainRun; each job's member works on the thread that called Train. The
/// group is over when no job is attached or expected. Jobs of a group have
/// equal machines (JobEnvironment::ranks), or none; where another one leads,
/// the group makes the passes that it is told. Thread-safe.
class SharedPassGroup final : private JobHost {
 public:
  /// `metrics` may be null. All arguments outlive the group.
  SharedPassGroup(const SharedPassOptions& options, std::string name,
                  SharedPassMetrics* metrics)
      : options_(options), name_(std::move(name)), metrics_(metrics) {}
  /// REQUIRES: all calls of Train have returned.
  ~SharedPassGroup() override ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string& name() const { return name_; }

  /// Whether a job could be attached soon, without keeping the others waiting.
  bool HasPlaceFor(const SharedPassCandidate& job) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Gives up all places held by Expect.
  void ForgetAll() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Holds a place for a job that will call Train; false if there is none.
  bool Expect(const SharedPassCandidate& job) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Gives up the job's place: it will not call Train.
  void Forget(const std::string& job) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Trains an expected job, from its checkpoint or its start to its end, as
  /// RunTrainJob does, or until it is to train alone.
  SharedPassResult Train(const SharedPassRequest& request)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Whether the group takes no more jobs.
  bool IsOver() const ABSL_LOCKS_EXCLUDED(mutex_);

  /// See SharedPassGroups::ConvoyOf.
  absl::StatusOr<std::string> ConvoyOf(const std::string& machines)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // A job that has called Train. The driver hands a call to the job's thread,
  // which makes it; between calls the slot's content belongs to the driver.
  struct Slot {
    explicit Slot(const SharedPassRequest& request)
        : request(request), options(request.options) {}

    // Its next epoch, as DataSpec numbers batches, before it is attached.
    int64_t NextEpoch() const {
      return options.data.EpochOfBatches(first_wish.epoch);
    }

    const Ranks* ranks() const { return request.environment.ranks; }

    const SharedPassRequest request;
    // The request's options with the first_epoch_key that was chosen.
    TrainJobOptions options;
    std::unique_ptr<Member> member;
    // The member's wish when it was made.
    Wish first_wish;
    std::optional<AttachedJob> job;
    // Whether the job is detached to train alone.
    bool trains_alone = false;
    // Guarded by mutex_, with all fields below.
    bool attached = false;
    const std::function<absl::Status()>* call = nullptr;
    // Whether the driver is calling the job's observer.
    bool is_told = false;
    absl::Status status;
    double done_seconds = 0;
    EpochSeconds epoch_seconds;
    std::optional<absl::StatusOr<TrainReport>> result;
    absl::CondVar wake;
  };
  using Slots = std::vector<Slot*>;
  class AllObservers;

  // Called on the driver's thread.
  void Drive();
  absl::Status RunData();
  Slots AwaitJobs(bool someone_attached);
  std::vector<absl::Status> CallAll(
      const Slots& slots, absl::FunctionRef<absl::Status(Slot&)> call);
  absl::Status MakeMember(Slot& slot);
  absl::Status Join(Slot& slot, int64_t epoch);
  AttachedJob* MakeJob(Slot& slot);
  std::optional<PassTurn> AwaitTold() ABSL_LOCKS_EXCLUDED(mutex_);
  Slots AwaitNamed(const PassTurn& turn) ABSL_LOCKS_EXCLUDED(mutex_);
  void Post(PassTurn turn) ABSL_LOCKS_EXCLUDED(mutex_);
  // The jobs that are attached.
  Slots Attached() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The job of several machines whose attempt this is, if it has no result;
  // null = none.
  Slot* FindAttempt(const std::string& attempt) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Finish(Slot& slot, absl::StatusOr<TrainReport> result);
  Slot& SlotOf(const AttachedJob& job);
  Slots Unfinished() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::vector<AttachedJob*> Attach(std::optional<int64_t> next_epoch) override;
  void OnPass(PassTurn::Kind kind, int64_t epoch,
              absl::Span<AttachedJob* const> jobs) override;
  bool follows() const override;
  std::optional<Turn> AwaitTurn() override;
  std::vector<absl::Status> ForAll(
      absl::Span<AttachedJob* const> jobs,
      absl::FunctionRef<absl::Status(AttachedJob&)> call) override;
  int max_steps() const override { return max_steps_; }
  void Report(absl::Span<EndedEpoch> epochs) override;
  AttachedJob* PickSlowest(double pass_seconds) override;
  bool MayLetGo() override;
  void LetGo(AttachedJob& job) override;
  void OnShared(int64_t bytes) override;
  void Detach(AttachedJob& job, absl::StatusOr<TrainReport> result) override;

  // Called on any thread.
  void OnStop();
  void SetResult(Slot& slot, absl::StatusOr<TrainReport> result)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Work(Slot& slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  size_t NumPlaces() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WakeAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const SharedPassOptions& options_;
  const std::string name_;
  SharedPassMetrics* const metrics_;

  // Used by the driver alone.
  const JobEnvironment* environment_ = nullptr;
  BatchSource* source_ = nullptr;
  int max_steps_ = 1;
  int64_t num_epochs_ = 1;
  double epoch_began_ = 0;
  // Number of the last turn that was posted.
  uint64_t last_turn_ = 0;

  mutable absl::Mutex mutex_;
  // Signalled when a job calls Train, is no longer expected, or has made a
  // call.
  absl::CondVar driver_;
  std::list<std::unique_ptr<Slot>> slots_ ABSL_GUARDED_BY(mutex_);
  // Expected jobs, and whether the driver has waited for them.
  std::map<std::string, bool> expected_ ABSL_GUARDED_BY(mutex_);
  // Epoch with which jobs begin that are attached next; absent while no job is
  // attached.
  std::optional<int64_t> next_epoch_ ABSL_GUARDED_BY(mutex_);
  // Whether a job was detached since the last call of Attach.
  bool has_free_place_ ABSL_GUARDED_BY(mutex_) = false;
  // Stops the batch source, once `stopping_`.
  std::stop_source stop_ ABSL_GUARDED_BY(mutex_);
  // Whether all jobs that had come were asked to stop. A job that comes later
  // waits for the next batch source.
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  // The machines of all jobs, and the group's name on all of them; empty until
  // they are asked for.
  std::string machines_ ABSL_GUARDED_BY(mutex_);
  std::string convoy_ ABSL_GUARDED_BY(mutex_);
  // Whether jobs are of this machine alone, or which part it has.
  enum class Part { kAlone, kLeads, kFollows };
  Part part_ ABSL_GUARDED_BY(mutex_) = Part::kAlone;
  // Where another machine leads: what it has told, and the attempts of jobs
  // that are, were, or will not be attached here.
  HeardTurns heard_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> known_ ABSL_GUARDED_BY(mutex_);
  // Last member: the thread ends before what it uses.
  std::jthread thread_;
};

/// The groups of this process: train jobs with equal data
/// (TrainJobOptions::sharing_key) share their passes. Thread-safe.
class SharedPassGroups {
 public:
  /// `registry` outlives this; null = no time series.
  SharedPassGroups(SharedPassOptions options, metrics::Registry* registry);
  SharedPassGroups(const SharedPassGroups&) = delete;
  SharedPassGroups& operator=(const SharedPassGroups&) = delete;

  /// Identity of a running group in which Expect would find a place; null =
  /// none.
  const void* GroupWithPlaceFor(const SharedPassCandidate& job) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Holds a place for a job that will call Train once: in a running group, or,
  /// if `may_begin`, in a new one. Returns the group's identity, valid while
  /// the group lives; null = there is no place.
  const void* Expect(const SharedPassCandidate& job, bool may_begin = true)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Releases a job that has ended, whether it was trained or not. Does nothing
  /// if it was not expected.
  void Forget(const std::string& job) ABSL_LOCKS_EXCLUDED(mutex_);

  /// A text that the group of a job, which is expected, has in common with its
  /// parts on the other machines of the job. A group has the `machines` of the
  /// first job that asks. Empty, and the job is forgotten, if those are others,
  /// or if it was not expected.
  absl::StatusOr<std::string> ConvoyOf(const std::string& job,
                                       const std::string& machines)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// SharedPassOptions::max_jobs.
  int max_jobs() const { return options_.max_jobs; }

  /// Gives up all places held by Expect: no group waits for more jobs.
  void ForgetAll() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Waits until all groups have ended, with their threads. REQUIRES: all calls
  /// of Train have returned, and no more come.
  void AwaitEnd() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Trains a job (SharedPassGroup::Train); a job that was not expected in a
  /// new group.
  absl::StatusOr<TrainReport> Train(const SharedPassRequest& request)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const SharedPassOptions options_;
  const std::unique_ptr<SharedPassMetrics> metrics_;
  mutable absl::Mutex mutex_;
  // Groups that are over are removed when the next group begins.
  std::list<std::shared_ptr<SharedPassGroup>> groups_ ABSL_GUARDED_BY(mutex_);
  // Group of each job that is expected or trains.
  std::map<std::string, std::shared_ptr<SharedPassGroup>> of_jobs_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_RUN_SHARED_PASS_H_
