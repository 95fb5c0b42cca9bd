// How a watch goes on:
//   1. Stream events from the next number wanted; hand on each event not seen
//      before, and want the one after it next.
//   2. The sink has had enough: done. Stopped: CANCELLED.
//   3. The stream ended well and the job's end was among its events: done.
//   4. The stream ended well without it (the daemon was stopping, or the end
//      came before the first number wanted): done if the job has ended, else
//      go on as after a break.
//   5. The stream broke: pause, unless patience is at its end, and start over.
//      Any event restores patience. Answers that will not change by waiting
//      (NOT_FOUND, say) end the watch.

#include "client/job_watch.h"

#include <algorithm>

namespace hearth::client {
namespace {

// Codes by which gRPC reports that the other side went away. A daemon that is
// killed gives UNAVAILABLE; one that shuts down may give any of them.
bool IsBroken(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable ||
         status.code() == absl::StatusCode::kCancelled ||
         status.code() == absl::StatusCode::kUnknown || IsUnreachable(status);
}

class JobWatch {
 public:
  JobWatch(const JobWatchCalls& calls, uint64_t from_sequence,
           const EventSink& sink, std::stop_token stop, Backoff backoff)
      : calls_(calls),
        sink_(sink),
        stop_(std::move(stop)),
        backoff_(backoff),
        next_(std::max<uint64_t>(from_sequence, 1)) {}

  absl::Status Run() {
    while (true) {
      absl::Status status = calls_.stream(
          next_, [this](const v1::JobEvent& event) { return Take(event); });
      if (enough_) return absl::OkStatus();
      if (stop_.stop_requested()) return Stopped();
      if (status.ok() && ended_) return absl::OkStatus();
      if (status.ok()) {
        const absl::StatusOr<v1::JobState> state = calls_.state();
        if (state.ok() && HasEnded(*state)) return absl::OkStatus();
        status = state.ok() ? absl::UnavailableError("the watch ended early")
                            : state.status();
      }
      if (!IsBroken(status)) return status;
      if (!backoff_.Pause(stop_)) {
        return stop_.stop_requested() ? Stopped() : status;
      }
    }
  }

 private:
  static absl::Status Stopped() {
    return absl::CancelledError("the watch was stopped");
  }

  bool Take(const v1::JobEvent& event) {
    if (event.sequence() < next_) return true;  // Seen before the break.
    next_ = event.sequence() + 1;
    backoff_.Reset();
    if (event.has_state()) ended_ = HasEnded(event.state().state());
    enough_ = !sink_(event);
    return !enough_;
  }

  const JobWatchCalls& calls_;
  const EventSink& sink_;
  const std::stop_token stop_;
  Backoff backoff_;
  uint64_t next_;
  bool ended_ = false;
  bool enough_ = false;
};

}  // namespace

absl::Status WatchThroughRestarts(const JobWatchCalls& calls,
                                  uint64_t from_sequence, const EventSink& sink,
                                  std::stop_token stop, Backoff backoff) {
  return JobWatch(calls, from_sequence, sink, std::move(stop), backoff).Run();
}

bool HasEnded(v1::JobState state) {
  return state == v1::SUCCEEDED || state == v1::FAILED ||
         state == v1::CANCELLED;
}

}  // namespace hearth::client
