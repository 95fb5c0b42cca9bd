#include "server/jobs/event_hub.h"

#include <utility>

namespace hearth::server {

EventHub::EventHub(const Clock& clock)
    : clock_(clock), thread_([this] { Run(); }) {}

EventHub::~EventHub() {
  {
    absl::MutexLock lock(&mutex_);
    exiting_ = true;
    work_.Signal();
  }
  thread_.join();
}

void EventHub::Add(const std::string& id, std::shared_ptr<Watcher> watcher) {
  absl::MutexLock lock(&mutex_);
  const Watcher* key = watcher.get();
  entries_[key] = {.id = id, .watcher = std::move(watcher)};
  by_job_.emplace(id, key);
  WakeLocked(key);
}

void EventHub::Notify(const std::string& id) {
  absl::MutexLock lock(&mutex_);
  const auto [begin, end] = by_job_.equal_range(id);
  for (auto it = begin; it != end; ++it) WakeLocked(it->second);
}

void EventHub::Wake(const Watcher* watcher) {
  absl::MutexLock lock(&mutex_);
  WakeLocked(watcher);
}

void EventHub::WakeAt(const Watcher* watcher, double seconds) {
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(watcher);
  if (found == entries_.end()) return;
  timed_.erase({found->second.wakes_at, watcher});
  found->second.wakes_at = seconds;
  timed_.insert({seconds, watcher});
  if (timed_.begin()->second == watcher) work_.Signal();
}

double EventHub::WakeByTime() {
  while (!timed_.empty()) {
    const auto [seconds, watcher] = *timed_.begin();
    if (seconds > clock_.SteadySeconds()) return seconds;
    timed_.erase(timed_.begin());
    WakeLocked(watcher);
  }
  return std::numeric_limits<double>::infinity();
}

void EventHub::Stop() {
  absl::MutexLock lock(&mutex_);
  stopping_ = true;
  for (const auto& [watcher, entry] : entries_) WakeLocked(watcher);
}

int EventHub::size() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<int>(entries_.size());
}

void EventHub::WakeLocked(const Watcher* watcher) {
  const auto found = entries_.find(watcher);
  if (found == entries_.end() || found->second.is_awake) return;
  found->second.is_awake = true;
  awake_.push_back(watcher);
  work_.Signal();
}

void EventHub::Drop(const Watcher* watcher) {
  const auto found = entries_.find(watcher);
  const auto [begin, end] = by_job_.equal_range(found->second.id);
  for (auto it = begin; it != end; ++it) {
    if (it->second == watcher) {
      by_job_.erase(it);
      break;
    }
  }
  if (found->second.is_awake) std::erase(awake_, watcher);
  timed_.erase({found->second.wakes_at, watcher});
  entries_.erase(found);
}

void EventHub::Run() {
  while (const std::shared_ptr<Watcher> watcher = Next()) {
    if (!watcher->Pump(IsStopping())) {
      absl::MutexLock lock(&mutex_);
      Drop(watcher.get());
    }
  }
}

std::shared_ptr<Watcher> EventHub::Next() {
  absl::MutexLock lock(&mutex_);
  while (true) {
    if (exiting_) return nullptr;
    const double next = WakeByTime();
    if (!awake_.empty()) break;
    work_.WaitWithTimeout(&mutex_,
                          absl::Seconds(next - clock_.SteadySeconds()));
  }
  Entry& entry = entries_.at(awake_.front());
  awake_.pop_front();
  // A wake from here on leads to another pump.
  entry.is_awake = false;
  return entry.watcher;
}

bool EventHub::IsStopping() const {
  absl::MutexLock lock(&mutex_);
  return stopping_;
}

}  // namespace hearth::server
