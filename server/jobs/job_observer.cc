#include "server/jobs/job_observer.h"

#include "absl/time/time.h"
#include "server/mapping/report_mapping.h"

namespace hearth::server {

JobObserver::JobObserver(JobEvents& events, const Clock& clock,
                         metrics::Registry& registry, const Subject& subject)
    : events_(events),
      clock_(clock),
      progress_time_(registry.NewGauge(
          "hearth_job_last_progress_timestamp_seconds",
          "Unix time of a running job's last progress, or of its start.",
          {{"job", subject.id}})) {
  Touch(*progress_time_);
  if (!subject.has_checkpoints) return;
  checkpoint_time_ = registry.NewGauge(
      "hearth_job_last_checkpoint_timestamp_seconds",
      "Unix time of a running job's last checkpoint, or of its start.",
      {{"job", subject.id}});
  Touch(*checkpoint_time_);
}

void JobObserver::Touch(metrics::Gauge& time) {
  time.Set(absl::ToDoubleSeconds(clock_.Now() - absl::UnixEpoch()));
}

void JobObserver::OnRunning() { events_.OnRunning(); }

void JobObserver::OnProgress(const job::Progress& progress) {
  Touch(*progress_time_);
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

void JobObserver::OnDurable() {
  if (checkpoint_time_ != nullptr) Touch(*checkpoint_time_);
  events_.OnDurable();
}

void JobObserver::OnLog(job::Severity severity, const std::string& text) {
  v1::JobEvent event;
  event.mutable_log()->set_severity(ToProto(severity));
  event.mutable_log()->set_text(text);
  events_.Append(event);
}

}  // namespace hearth::server
