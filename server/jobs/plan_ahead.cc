#include "server/jobs/plan_ahead.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "engine/base/status.h"
#include "server/log.h"

namespace hearth::server {

PlanAhead::PlanAhead(JobStore& store, Prepare prepare)
    : store_(store),
      prepare_(std::move(prepare)),
      thread_([this] { Work(); }) {}

PlanAhead::~PlanAhead() { Stop(); }

void PlanAhead::SetNext(const std::optional<Job>& next) {
  absl::MutexLock lock(&mutex_);
  next_ = next;
  if (next_.has_value()) changed_.Signal();
}

void PlanAhead::Forget(const std::string& id) {
  absl::MutexLock lock(&mutex_);
  if (next_.has_value() && next_->id == id) next_.reset();
  if (current_ != id) return;
  stop_current_.request_stop();
  // The next job may need the plan that was not made.
  last_data_.clear();
}

void PlanAhead::Stop() {
  absl::MutexLock lock(&mutex_);
  stopping_ = true;
  stop_current_.request_stop();
  changed_.Signal();
}

void PlanAhead::Work() {
  absl::MutexLock lock(&mutex_);
  while (!stopping_) {
    if (!next_.has_value() || next_->data == last_data_) {
      changed_.Wait(&mutex_);
      continue;
    }
    const Job job = *next_;
    current_ = job.id;
    last_data_ = job.data;
    stop_current_ = {};
    const std::stop_token stop = stop_current_.get_token();
    mutex_.Unlock();
    const absl::Status status =
        CatchExceptions([&] { return Make(job, stop); });
    if (!status.ok()) {
      LogInfo(job.log_name,
              ": its plan is not made ahead: ", status.ToString());
    }
    mutex_.Lock();
    current_.clear();
  }
}

absl::Status PlanAhead::Make(const Job& job, std::stop_token stop) const {
  HEARTH_ASSIGN_OR_RETURN(const v1::Job stored, store_.Get(job.id));
  HEARTH_ASSIGN_OR_RETURN(const v1::PrepareReport report,
                          prepare_(stored, std::move(stop)));
  const v1::PreparationReport& made = report.preparation();
  if (made.plan().empty() || made.reused()) return absl::OkStatus();
  v1::JobEvent event;
  event.mutable_log()->set_severity(v1::LogLine::INFO);
  event.mutable_log()->set_text(absl::StrFormat(
      "plan %s was made ahead in %.1f s", made.plan(), made.seconds()));
  LogInfo(job.log_name, ": ", event.log().text());
  return store_.Append(job.id, event);
}

}  // namespace hearth::server
