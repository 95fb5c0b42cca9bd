#ifndef HEARTH_SERVER_JOBS_JOB_RUNNER_H_
#define HEARTH_SERVER_JOBS_JOB_RUNNER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/job/interface/job_environment.h"
#include "engine/job/interface/observer.h"
#include "engine/metrics/registry.h"
#include "server/jobs/scheduler.h"
#include "server/storage/data_dir.h"
#include "server/storage/job_store.h"

namespace hearth::server {

/// Keeps the time series of ended jobs a while longer, so that the last figures
/// are scraped, and then drops them. However fast jobs end, only those of the
/// last ones are kept, so that series labelled by job stay bounded. Drops are
/// due when metrics are collected or series are added: nobody else could see
/// the difference. Thread-safe.
class RetiredSeries {
 public:
  static constexpr double kLifetimeSeconds = 15 * 60;
  /// Most jobs whose series are kept.
  static constexpr size_t kMaxJobs = 100;

  /// Both must outlive this.
  RetiredSeries(metrics::Registry& registry, const Clock& clock);

  /// Takes over the owner of a job's series.
  void Add(std::shared_ptr<void> series) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void DropExpired() ABSL_LOCKS_EXCLUDED(mutex_);

  const Clock& clock_;
  absl::Mutex mutex_;
  // With the time on the steady clock at which each goes, ascending.
  std::deque<std::pair<double, std::shared_ptr<void>>> series_
      ABSL_GUARDED_BY(mutex_);
  const std::unique_ptr<metrics::CollectHook> hook_;
};

/// Turns the calls of a running job into events of the contract, progress at
/// most twice a second, and into series of when it last got on, which go with
/// the observer: a job that has ended is not late. Single-owner.
class JobObserver final : public job::Observer {
 public:
  static constexpr double kSecondsBetweenProgress = 0.5;

  /// The job, and whether it makes checkpoints.
  struct Subject {
    std::string id;
    bool has_checkpoints = false;
  };

  /// All but the subject must outlive the observer.
  JobObserver(JobEvents& events, const Clock& clock,
              metrics::Registry& registry, const Subject& subject);

  void OnRunning() override;
  void OnProgress(const job::Progress& progress) override;
  absl::Status OnFirstEpochKey(int64_t key) override;
  absl::Status OnEpoch(const job::EpochReport& epoch) override;
  void OnDurable() override;
  void OnLog(job::Severity severity, const std::string& text) override;

 private:
  void Touch(metrics::Gauge& time);

  JobEvents& events_;
  const Clock& clock_;
  const std::unique_ptr<metrics::Gauge> progress_time_;
  // Null = makes none.
  std::unique_ptr<metrics::Gauge> checkpoint_time_;
  // When the last progress event was passed on.
  std::optional<double> last_progress_;
};

/// The parts that jobs use; all must outlive the runner.
struct JobRunnerDependencies {
  const job::JobEnvironment environment;
  const DataDir& data_dir;
  JobStore& store;
  metrics::Registry& registry;
  RetiredSeries& retired_series;
  /// The files that imports read, and those that exports and generated folders
  /// are made of (see io::OpenRooted); null = the environment's.
  io::FileSystem* import_files = nullptr;
  io::FileSystem* export_files = nullptr;
  /// The path of an upload that is whole, by its id.
  std::function<absl::StatusOr<std::string>(const std::string& id)>
      upload_source = nullptr;
  /// Takes a folder away, without waiting until all of it is removed; null =
  /// the environment's files remove it.
  std::function<absl::Status(const std::string& path)> throw_away = nullptr;
};

/// A runner of jobs of every kind by the engine. A job that was
/// interrupted after its result had appeared, but before that was noted,
/// succeeds when it is run again.
std::unique_ptr<JobRunner> NewJobRunner(
    const JobRunnerDependencies& dependencies,
    std::vector<std::string> import_roots);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_JOBS_JOB_RUNNER_H_
