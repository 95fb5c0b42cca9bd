#include "server/jobs/job_observer.h"

#include "server/mapping/report_mapping.h"

namespace hearth::server {

void JobObserver::OnRunning() { events_.OnRunning(); }

void JobObserver::OnProgress(const job::Progress& progress) {
  const double now = clock_.SteadySeconds();
  if (last_progress_.has_value() &&
      now - *last_progress_ < kSecondsBetweenProgress) {
    return;
  }
  last_progress_ = now;
  v1::JobEvent event;
  *event.mutable_progress() = ToProto(progress);
  events_.Append(event);
}

absl::Status JobObserver::OnFirstEpochKey(int64_t key) {
  return events_.OnFirstEpochKey(static_cast<uint32_t>(key));
}

absl::Status JobObserver::OnEpoch(const job::EpochReport& epoch) {
  return events_.OnEpoch(ToProto(epoch));
}

void JobObserver::OnDurable() { events_.OnDurable(); }

void JobObserver::OnLog(job::Severity severity, const std::string& text) {
  v1::JobEvent event;
  event.mutable_log()->set_severity(ToProto(severity));
  event.mutable_log()->set_text(text);
  events_.Append(event);
}

}  // namespace hearth::server
