#include "server/sweeps/sweep_jobs.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "server/log.h"

namespace hearth::server {
namespace {

constexpr absl::Duration kRetryInterval = absl::Seconds(1);

// Why an ended job did not succeed; empty if it did.
std::string ReasonOf(const v1::Job& job) {
  if (job.state() == v1::FAILED) return job.error().message();
  if (job.state() == v1::CANCELLED) {
    return absl::StrCat(job.id(), " was cancelled");
  }
  return "";
}

}  // namespace

v1::SweepEvent EndOfReplica(const v1::Job& job, const JobOwner& owner) {
  v1::SweepEvent event;
  v1::ReplicaEnd& end = *event.mutable_ended();
  end.set_trial(static_cast<uint32_t>(owner.trial + 1));
  end.set_replica(static_cast<uint32_t>(owner.replica));
  end.set_state(job.state());
  end.set_reason(ReasonOf(job));
  end.set_would_repeat(job.state() == v1::FAILED &&
                       job.error().code() ==
                           static_cast<int>(absl::StatusCode::kAborted));
  if (job.report().train().has_test_metric()) {
    end.set_test_metric(job.report().train().test_metric());
  }
  return event;
}

v1::SweepEvent EndOfTest(const v1::Job& job, const JobOwner& owner) {
  v1::SweepEvent event;
  v1::TestEnd& end = *event.mutable_tested();
  end.set_replica(static_cast<uint32_t>(owner.replica));
  end.set_state(job.state());
  if (job.report().evaluate().has_test_metric()) {
    end.set_test_metric(job.report().evaluate().test_metric());
  } else if (job.state() == v1::SUCCEEDED) {
    end.set_reason("the dataset has no test nodes with labels");
  } else {
    end.set_reason(ReasonOf(job));
  }
  return event;
}

v1::Job JobThatIsGone(const std::string& id) {
  v1::Job job;
  job.set_id(id);
  job.set_state(v1::FAILED);
  job.mutable_error()->set_message(absl::StrCat(id, " is gone"));
  return job;
}

void JobMessenger::Start() {
  thread_ = std::jthread([this] { Work(); });
}

void JobMessenger::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

void JobMessenger::Send(JobMessage::Kind kind, const std::string& job) {
  absl::MutexLock lock(&mutex_);
  if (kind == JobMessage::Kind::kRelease && !messages_.empty() &&
      messages_.back().kind == kind) {
    messages_.back().jobs.push_back(job);
  } else {
    messages_.push_back({.kind = kind, .jobs = {job}});
  }
  changed_.SignalAll();
}

void JobMessenger::Work() {
  while (true) {
    JobMessage message;
    {
      absl::MutexLock lock(&mutex_);
      while (!stopping_ && messages_.empty()) changed_.Wait(&mutex_);
      if (stopping_) return;
      message = std::move(messages_.front());
      messages_.pop_front();
    }
    while (true) {
      const absl::Status status = deliver_(message);
      // A job that is gone needs no message.
      if (status.ok() || absl::IsNotFound(status) ||
          absl::IsFailedPrecondition(status)) {
        break;
      }
      LogWarning(absl::StrJoin(message.jobs, ", "), ": ", status.ToString());
      absl::MutexLock lock(&mutex_);
      if (!stopping_) changed_.WaitWithTimeout(&mutex_, kRetryInterval);
      if (stopping_) return;
    }
  }
}

}  // namespace hearth::server
