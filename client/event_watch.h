#ifndef HEARTH_CLIENT_EVENT_WATCH_H_
#define HEARTH_CLIENT_EVENT_WATCH_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/backoff.h"
#include "client/hearth_client.h"

namespace hearth::client {

/// How what is watched, a job or a sweep, is reached.
template <typename Event>
struct WatchCalls {
  using Sink = std::function<bool(const Event&)>;

  /// One stream of events from a sequence number on; any status of the stream
  /// is returned. The sink returns false when it has had enough.
  std::function<absl::Status(uint64_t from_sequence, const Sink& sink)> stream;
  /// Whether it has ended by now.
  std::function<absl::StatusOr<bool>()> has_ended;
  /// Whether an event is a change of state: then, whether it is the end.
  std::function<bool(const Event&)> is_state;
  std::function<bool(const Event&)> is_end;
};

/// Whether the other side went away, by the codes that gRPC reports then. A
/// daemon that is killed gives UNAVAILABLE; one that shuts down may give any of
/// them.
inline bool IsBroken(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable ||
         status.code() == absl::StatusCode::kCancelled ||
         status.code() == absl::StatusCode::kUnknown || IsUnreachable(status);
}

/// A watch through broken connections and restarts of the daemon.
///
///   1. Stream events from the next number wanted; hand on each event not seen
///      before, and want the one after it next.
///   2. The sink has had enough: done. Stopped: CANCELLED.
///   3. The stream ended well and the end was among its events: done.
///   4. The stream ended well without it (the daemon was stopping, or the end
///      came before the first number wanted): done if it has ended, else go on
///      as after a break.
///   5. The stream broke: pause, unless patience is at its end, and start over.
///      Any event restores patience. Answers that will not change by waiting
///      (NOT_FOUND, say) end the watch.
template <typename Event>
class EventWatch {
 public:
  EventWatch(const WatchCalls<Event>& calls, uint64_t from_sequence,
             const typename WatchCalls<Event>::Sink& sink, std::stop_token stop,
             Backoff backoff)
      : calls_(calls),
        sink_(sink),
        stop_(std::move(stop)),
        backoff_(backoff),
        next_(std::max<uint64_t>(from_sequence, 1)) {}

  absl::Status Run() {
    while (true) {
      absl::Status status = calls_.stream(
          next_, [this](const Event& event) { return Take(event); });
      if (enough_) return absl::OkStatus();
      if (stop_.stop_requested()) return Stopped();
      if (status.ok() && ended_) return absl::OkStatus();
      if (status.ok()) {
        const absl::StatusOr<bool> has_ended = calls_.has_ended();
        if (has_ended.ok() && *has_ended) return absl::OkStatus();
        status = has_ended.ok()
                     ? absl::UnavailableError("the watch ended early")
                     : has_ended.status();
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

  bool Take(const Event& event) {
    if (event.sequence() < next_) return true;  // Seen before the break.
    next_ = event.sequence() + 1;
    backoff_.Reset();
    if (calls_.is_state(event)) ended_ = calls_.is_end(event);
    enough_ = !sink_(event);
    return !enough_;
  }

  const WatchCalls<Event>& calls_;
  const typename WatchCalls<Event>::Sink& sink_;
  const std::stop_token stop_;
  Backoff backoff_;
  uint64_t next_;
  bool ended_ = false;
  bool enough_ = false;
};

}  // namespace hearth::client

#endif  // HEARTH_CLIENT_EVENT_WATCH_H_
