#include "client/launcher/enrollment.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "client/connection.h"
#include "engine/base/clock.h"
#include "engine/base/status.h"

namespace hearth::launcher {

namespace {

constexpr absl::Duration kLookForStopEvery = absl::Milliseconds(100);

}  // namespace

Enrollment::Enrollment(Call call, uint32_t size, Times times)
    : call_(std::move(call)),
      times_(times),
      complete_(Clock::Real().SteadySeconds()) {
  request_.set_size(size);
  request_.set_instance(client::NewRequestId());
  thread_ = std::jthread([this](const std::stop_token& stop) { Work(stop); });
}

Enrollment::~Enrollment() {
  thread_.request_stop();
  {
    absl::MutexLock lock(&mutex_);
    changed_.SignalAll();
  }
  thread_.join();
}

void Enrollment::Work(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    v1::EnrollRequest request;
    {
      absl::MutexLock lock(&mutex_);
      request = request_;
      has_changed_ = false;
    }
    const absl::StatusOr<v1::Enrolled> answer = call_(request);
    const absl::Time next = absl::Now() + times_.call;
    absl::MutexLock lock(&mutex_);
    Take(answer);
    changed_.SignalAll();
    while (!stop.stop_requested() && !has_changed_ &&
           !changed_.WaitWithDeadline(&mutex_, next)) {
    }
  }
}

void Enrollment::Take(const absl::StatusOr<v1::Enrolled>& answer) {
  const double now = Clock::Real().SteadySeconds();
  if (answer.ok()) {
    last_ = *answer;
    if (answer->missing().empty() || answer->has_exit_code()) complete_ = now;
  } else if (!client::IsBroken(answer.status())) {
    failure_.Update(answer.status());
  }
  const absl::Duration incomplete = absl::Seconds(now - complete_);
  if (failure_.ok() && incomplete > times_.patience) {
    failure_ = absl::DeadlineExceededError(absl::StrCat(
        answer.ok()
            ? absl::StrCat(absl::StrJoin(answer->missing(), ", "),
                           answer->missing_size() == 1 ? " has" : " have")
            : "the daemon of rank 0 has",
        " not been there for ",
        absl::FormatDuration(absl::Trunc(incomplete, absl::Seconds(1))),
        answer.ok() ? "" : absl::StrCat(": ", answer.status().message())));
  }
  if (!failure_.ok()) failed_.request_stop();
}

void Enrollment::SetReady(const std::string& address) {
  absl::MutexLock lock(&mutex_);
  request_.set_address(address);
  has_changed_ = true;
  changed_.SignalAll();
}

absl::Status Enrollment::Await(const std::stop_token& stop,
                               bool (*condition)(const v1::Enrolled& answer)) {
  absl::MutexLock lock(&mutex_);
  while (true) {
    if (last_.has_value() && condition(*last_)) return absl::OkStatus();
    HEARTH_RETURN_IF_ERROR(failure_);
    if (stop.stop_requested()) return absl::CancelledError("stopped");
    changed_.WaitWithTimeout(&mutex_, kLookForStopEvery);
  }
}

absl::Status Enrollment::AwaitAll(std::stop_token stop) {
  return Await(stop, [](const v1::Enrolled& answer) {
    return answer.missing().empty() && answer.unready().empty();
  });
}

absl::StatusOr<int> Enrollment::AwaitEnd(std::stop_token stop) {
  HEARTH_RETURN_IF_ERROR(Await(
      stop, [](const v1::Enrolled& answer) { return answer.has_exit_code(); }));
  absl::MutexLock lock(&mutex_);
  return last_->exit_code();
}

void Enrollment::End(int exit_code) {
  const absl::Time until = absl::Now() + times_.farewell;
  absl::MutexLock lock(&mutex_);
  request_.set_exit_code(exit_code);
  has_changed_ = true;
  changed_.SignalAll();
  while (failure_.ok() && (!last_.has_value() || !last_->has_exit_code() ||
                           !last_->untold().empty())) {
    if (changed_.WaitWithDeadline(&mutex_, until)) return;
  }
}

absl::Status Enrollment::failure() const {
  absl::MutexLock lock(&mutex_);
  return failure_;
}

}  // namespace hearth::launcher
