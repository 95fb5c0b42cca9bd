#ifndef HEARTH_SERVER_JOBS_JOB_OBSERVER_H_
#define HEARTH_SERVER_JOBS_JOB_OBSERVER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "engine/base/clock.h"
#include "engine/job/observer.h"
#include "server/jobs/scheduler.h"

namespace hearth::server {

/// Turns the calls of a running job into events of the contract, progress at
/// most twice a second. Single-owner.
class JobObserver final : public job::Observer {
 public:
  static constexpr double kSecondsBetweenProgress = 0.5;

  /// Both must outlive the observer.
  JobObserver(JobEvents& events, const Clock& clock)
      : events_(events), clock_(clock) {}

  void OnRunning() override;
  void OnProgress(const job::Progress& progress) override;
  absl::Status OnFirstEpochKey(int64_t key) override;
  absl::Status OnEpoch(const job::EpochReport& epoch) override;
  void OnDurable() override;
  void OnLog(job::Severity severity, const std::string& text) override;

 private:
  JobEvents& events_;
  const Clock& clock_;
  // When the last progress event was passed on.
  std::optional<double> last_progress_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_JOBS_JOB_OBSERVER_H_
