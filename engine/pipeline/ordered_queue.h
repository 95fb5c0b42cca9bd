#ifndef HEARTH_ENGINE_PIPELINE_ORDERED_QUEUE_H_
#define HEARTH_ENGINE_PIPELINE_ORDERED_QUEUE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace hearth::pipeline {

/// A bounded queue of numbered values that leave in order of their number,
/// 0, 1, 2, ..., in whatever order they come. Thread-safe.
///
/// Room is counted in numbers, not values: number n may enter while fewer than
/// `capacity` numbers before it have not left, so whoever holds the next number
/// to leave never waits, and threads that bring numbers out of order cannot
/// block each other for good.
template <typename T>
class OrderedQueue {
 public:
  /// REQUIRES: capacity >= 1.
  explicit OrderedQueue(int64_t capacity) : capacity_(capacity) {}

  /// Waits for room for `number`. False, and `value` is dropped, if closed.
  /// REQUIRES: each number is pushed once.
  bool Push(int64_t number, T value) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const auto has_room = [&] {
      mutex_.AssertReaderHeld();
      return closed_ || number < next_ + capacity_;
    };
    mutex_.Await(absl::Condition(&has_room));
    if (closed_) return false;
    waiting_.emplace(number, std::move(value));
    return true;
  }

  /// Waits for the next number; nullopt if closed.
  std::optional<std::pair<int64_t, T>> Pop() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const auto is_there = [&] {
      mutex_.AssertReaderHeld();
      return closed_ || (!waiting_.empty() && waiting_.begin()->first == next_);
    };
    mutex_.Await(absl::Condition(&is_there));
    if (closed_) return std::nullopt;
    auto node = waiting_.extract(waiting_.begin());
    ++next_;
    return std::pair<int64_t, T>(node.key(), std::move(node.mapped()));
  }

  /// Wakes everybody; nothing enters or leaves any more.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
  }

  /// Drops what is left. REQUIRES: closed.
  void Clear() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    waiting_.clear();
  }

  int64_t size() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return static_cast<int64_t>(waiting_.size());
  }

 private:
  const int64_t capacity_;
  mutable absl::Mutex mutex_;
  std::map<int64_t, T> waiting_ ABSL_GUARDED_BY(mutex_);
  int64_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace hearth::pipeline

#endif  // HEARTH_ENGINE_PIPELINE_ORDERED_QUEUE_H_
