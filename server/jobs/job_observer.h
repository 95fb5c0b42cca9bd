#ifndef HEARTH_SERVER_JOBS_JOB_OBSERVER_H_
#define HEARTH_SERVER_JOBS_JOB_OBSERVER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "engine/base/clock.h"
#include "engine/job/observer.h"
#include "engine/metrics/registry.h"
#include "server/jobs/scheduler.h"

namespace hearth::server {

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

}  // namespace hearth::server

#endif  // HEARTH_SERVER_JOBS_JOB_OBSERVER_H_
