#ifndef HEARTH_SERVER_JOBS_EVENT_HUB_H_
#define HEARTH_SERVER_JOBS_EVENT_HUB_H_

#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/clock.h"

namespace hearth::server {

/// Follower of one job.
class Watcher {
 public:
  virtual ~Watcher() = default;

  /// Takes new events; returns false to be dropped. Called on the hub's thread
  /// alone. `stopping`: the daemon stops, and no new events will come.
  virtual bool Pump(bool stopping) = 0;
};

/// Wakes the watchers of a job when it has new events, on one thread for all of
/// them that blocks while nothing happens: a thousand idle watchers cost no
/// threads and no polling. Wakes may be merged, but a wake after an event
/// always leads to a Pump after that event. Thread-safe.
class EventHub {
 public:
  /// `clock` outlives the hub.
  explicit EventHub(const Clock& clock = Clock::Real());
  /// Drops the remaining watchers without a Pump.
  ~EventHub();
  EventHub(const EventHub&) = delete;
  EventHub& operator=(const EventHub&) = delete;

  /// Adds a watcher of job `id` and wakes it.
  void Add(const std::string& id, std::shared_ptr<Watcher> watcher)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Wakes all watchers of job `id`.
  void Notify(const std::string& id) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Wakes one watcher; does nothing if it was dropped.
  void Wake(const Watcher* watcher) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Wakes one watcher when the steady clock reaches `seconds`, or now if it
  /// has; replaces the time of the last call for this watcher. Does nothing if
  /// the watcher was dropped.
  void WakeAt(const Watcher* watcher, double seconds)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Wakes all watchers; from now on each Pump hears that the daemon stops.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Number of watchers.
  int size() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Entry {
    std::string id;
    std::shared_ptr<Watcher> watcher;
    bool is_awake = false;
    // Time of the next wake by the clock; infinite = none.
    double wakes_at = std::numeric_limits<double>::infinity();
  };

  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns the next watcher to pump; blocks until there is one. Null: the hub
  // is being destroyed.
  std::shared_ptr<Watcher> Next() ABSL_LOCKS_EXCLUDED(mutex_);
  // Wakes watchers whose time has come; returns the next watcher's time.
  double WakeByTime() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsStopping() const ABSL_LOCKS_EXCLUDED(mutex_);
  void WakeLocked(const Watcher* watcher) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Drop(const Watcher* watcher) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock& clock_;
  mutable absl::Mutex mutex_;
  std::map<const Watcher*, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::multimap<std::string, const Watcher*> by_job_ ABSL_GUARDED_BY(mutex_);
  // Watchers with a time, ordered by it.
  std::set<std::pair<double, const Watcher*>> timed_ ABSL_GUARDED_BY(mutex_);
  // Watchers to pump, each once.
  std::deque<const Watcher*> awake_ ABSL_GUARDED_BY(mutex_);
  // Signalled when the thread has something to do.
  absl::CondVar work_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool exiting_ ABSL_GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_JOBS_EVENT_HUB_H_
