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
#include "engine/feed/channel.h"
#include "engine/io/file_system.h"
#include "engine/job/interface/job_environment.h"
#include "engine/job/interface/observer.h"
#include "engine/metrics/registry.h"
#include "engine/train/model_options.h"
#include "engine/train/rank_group.h"
#include "engine/train/train_step.h"
#include "server/jobs/job_events.h"
#include "server/storage/data_dir.h"
#include "server/storage/job_store.h"

namespace hearth::server {

/// Keeps the time series of ended jobs for a while, so that their last values
/// are scraped, and then drops them. Keeps those of a limited number of jobs,
/// however fast jobs end, so that series labelled by job stay bounded. Series
/// are dropped when metrics are collected or series are added, which is when it
/// can be seen. Thread-safe.
class RetiredSeries {
 public:
  static constexpr double kLifetimeSeconds = 15 * 60;
  /// Maximum number of jobs whose series are kept.
  static constexpr size_t kMaxJobs = 100;

  /// Both arguments outlive this.
  RetiredSeries(metrics::Registry& registry, const Clock& clock);

  /// Takes the owner of a job's series.
  void Add(std::shared_ptr<void> series) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void DropExpired() ABSL_LOCKS_EXCLUDED(mutex_);

  const Clock& clock_;
  absl::Mutex mutex_;
  // Owners, with the times on the steady clock at which they are dropped,
  // ascending.
  std::deque<std::pair<double, std::shared_ptr<void>>> series_
      ABSL_GUARDED_BY(mutex_);
  const std::unique_ptr<metrics::CollectHook> hook_;
};

/// Turns the calls of a running job into events of the contract, with progress
/// at most twice a second, and into series with the times of its last progress
/// and checkpoint. The series end with the observer: a job that has ended is
/// not late. Single-owner.
class JobObserver final : public job::Observer {
 public:
  static constexpr double kSecondsBetweenProgress = 0.5;

  /// The observed job.
  struct Subject {
    std::string id;
    bool has_checkpoints = false;
  };

  /// `events`, `clock` and `registry` outlive the observer.
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
  // Null if the job makes no checkpoints.
  std::unique_ptr<metrics::Gauge> checkpoint_time_;
  // Time of the last progress event.
  std::optional<double> last_progress_;
};

class Cluster;
class LinkGroup;
class NodeFiles;

/// Makes a model whose steps are those of several machines. The daemon uses
/// model::NewRankedStep.
using RankedStepFactory =
    std::function<absl::StatusOr<std::unique_ptr<train::TrainStep>>(
        const train::TrainOptions& options, const train::ModelShape& shape,
        train::RankGroup& ranks)>;

/// Parts of the daemon that jobs use; all outlive the runner.
struct JobRunnerDependencies {
  const job::JobEnvironment environment;
  const DataDir& data_dir;
  JobStore& store;
  metrics::Registry& registry;
  RetiredSeries& retired_series;
  /// Files that imports read, and files with which exports and generated
  /// folders are written (see io::OpenRooted); null = the environment's files.
  io::FileSystem* import_files = nullptr;
  io::FileSystem* export_files = nullptr;
  /// Path of a complete upload with this id.
  std::function<absl::StatusOr<std::string>(const std::string& id)>
      upload_source = nullptr;
  /// The channels of a feed job with this id, one for each of its trainers.
  std::function<std::vector<std::shared_ptr<feed::Channel>>(
      const std::string& id, uint32_t trainers)>
      feed_channels = nullptr;
  /// The nodes that clients of feed jobs send.
  NodeFiles* node_files = nullptr;
  /// The daemon's cluster, and its models; null = there is none.
  Cluster* cluster = nullptr;
  RankedStepFactory new_ranked_step = nullptr;
  /// Removes a folder without waiting until all of it is removed; null = the
  /// environment's files remove it.
  std::function<absl::Status(const std::string& path)> throw_away = nullptr;
};

/// Makes a runner that runs jobs of all kinds with the engine. A job that was
/// interrupted after its result had appeared, but before the store noted it,
/// succeeds when it runs again.
std::unique_ptr<JobRunner> NewJobRunner(
    const JobRunnerDependencies& dependencies,
    std::vector<std::string> import_roots);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_JOBS_JOB_RUNNER_H_
