#ifndef HEARTH_SERVER_SERVICES_EVENT_WATCH_H_
#define HEARTH_SERVER_SERVICES_EVENT_WATCH_H_

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/jobs/event_hub.h"
#include "server/mapping/status_mapping.h"

namespace hearth::server {

/// A stream of stored events to a client: of a job, or of a sweep. `Batch` has
/// a vector of `events`, whose sequence numbers ascend, and says whether
/// nothing comes after them (`is_last`). Thread-safe as gRPC and the hub need.
///
///   1. the hub pumps it after its start, after each event of what is watched,
///      and when the last write is done or the client is gone;
///   2. a pump that finds a write in progress leaves; otherwise it writes the
///      next event, reading more from the store when it has none left;
///   3. with nothing left to write it finishes the call if the last event was
///      read or the daemon stops, and waits for the next pump otherwise.
///
/// All of that happens on the hub's thread; gRPC's threads only set flags and
/// wake the hub. gRPC calls OnDone after Finish, which is the last thing a pump
/// does; the watch lives until both gRPC and the hub have let it go.
template <typename Batch>
class EventWatch final
    : public grpc::ServerWriteReactor<
          typename decltype(Batch::events)::value_type>,
      public Watcher,
      public std::enable_shared_from_this<EventWatch<Batch>> {
 public:
  using Event = typename decltype(Batch::events)::value_type;
  /// Reads up to `limit` events from sequence number `from` on.
  using Reader = std::function<absl::StatusOr<Batch>(uint64_t from, int limit)>;

  /// `check`: asked before each event; the watch ends with its error. It does
  /// no I/O.
  EventWatch(EventHub& hub, std::string id, uint64_t from,
             std::function<absl::Status()> check, Reader reader)
      : hub_(hub),
        check_(std::move(check)),
        id_(std::move(id)),
        reader_(std::move(reader)),
        next_(std::max<uint64_t>(from, 1)) {}

  /// Begins the watch; gRPC owns a share from here on.
  void Start() {
    self_ = this->shared_from_this();
    // Tells the client at once that somebody is there.
    this->StartSendInitialMetadata();
    hub_.Add(id_, self_);
  }

  bool Pump(bool stopping) override {
    if (is_writing_) return true;
    if (const absl::Status checked = check_(); !checked.ok()) {
      return Close(checked);
    }
    if (is_broken_) return Close(absl::CancelledError("the client is gone"));
    if (events_.empty()) {
      absl::StatusOr<Batch> batch = reader_(next_, kEventsPerRead);
      if (!batch.ok()) return Close(batch.status());
      events_.assign(std::make_move_iterator(batch->events.begin()),
                     std::make_move_iterator(batch->events.end()));
      if (events_.empty() && batch->is_last) return Close(absl::OkStatus());
    }
    if (!events_.empty()) {
      WriteNext();
    } else if (stopping) {
      return Close(absl::UnavailableError(absl::StrCat(
          "hearthd is stopping; resume the watch from event ", next_)));
    }
    return true;
  }

  void OnWriteDone(bool ok) override {
    if (!ok) is_broken_ = true;
    is_writing_ = false;
    hub_.Wake(this);
  }

  void OnCancel() override {
    is_broken_ = true;
    hub_.Wake(this);
  }

  void OnDone() override {
    const std::shared_ptr<EventWatch> last_share = std::move(self_);
  }

 private:
  static constexpr int kEventsPerRead = 64;

  void WriteNext() {
    written_ = std::move(events_.front());
    events_.pop_front();
    next_ = written_.sequence() + 1;
    is_writing_ = true;
    this->StartWrite(&written_);
  }

  // Ends the call; false, for Pump to return.
  bool Close(const absl::Status& status) {
    this->Finish(ToGrpcStatus(status));
    return false;
  }

  EventHub& hub_;
  const std::function<absl::Status()> check_;
  const std::string id_;
  const Reader reader_;
  // Sequence number to read from.
  uint64_t next_;
  // Read but not written.
  std::deque<Event> events_;
  Event written_;
  std::atomic<bool> is_writing_ = false;
  std::atomic<bool> is_broken_ = false;
  std::shared_ptr<EventWatch> self_;
};

/// Starts a watch, which owns itself.
template <typename Batch>
EventWatch<Batch>* StartWatch(EventHub& hub, const std::string& id,
                              uint64_t from,
                              std::function<absl::Status()> check,
                              typename EventWatch<Batch>::Reader reader) {
  const auto watch = std::make_shared<EventWatch<Batch>>(
      hub, id, from, std::move(check), std::move(reader));
  watch->Start();
  return watch.get();
}

}  // namespace hearth::server

#endif  // HEARTH_SERVER_SERVICES_EVENT_WATCH_H_
