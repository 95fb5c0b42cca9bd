#ifndef HEARTH_ENGINE_PIPELINE_ORDERED_QUEUE_H_
#define HEARTH_ENGINE_PIPELINE_ORDERED_QUEUE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace hearth::pipeline {

/// A bounded queue of items 0 .. num_items - 1 that gives them out in order of
/// their number, whatever the order in which several producers bring them.
///
/// Item n has its place in a ring of `capacity` slots as soon as item n -
/// capacity was taken. So the next item to be taken can always be put in,
/// however many later ones are there already, and producers cannot lock each
/// other out; and no more than `capacity` items ever wait.
///
/// Thread-safe: any number of producers and consumers.
template <typename T>
class OrderedQueue {
 public:
  /// A taken item and its number; `item` is null at the end of the items and
  /// once closed.
  struct Numbered {
    int64_t number = 0;
    std::unique_ptr<T> item;
  };

  /// REQUIRES: capacity > 0, num_items >= 0.
  OrderedQueue(int64_t capacity, int64_t num_items)
      : num_items_(num_items), slots_(capacity) {}

  OrderedQueue(const OrderedQueue&) = delete;
  OrderedQueue& operator=(const OrderedQueue&) = delete;

  /// Blocks until there is a place for item `number`. False, destroying the
  /// item, once closed, and for one beyond the end (EndAt). REQUIRES: each
  /// number is pushed once; item not null.
  bool Push(int64_t number, std::unique_ptr<T> item)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    while (!closed_ && number < num_items_ && number >= next_ + Capacity()) {
      changed_.Wait(&mutex_);
    }
    if (closed_ || number >= num_items_) return false;
    slots_[number % Capacity()] = std::move(item);
    ++size_;
    changed_.SignalAll();
    return true;
  }

  /// Whether there is a place for item `number`, or the queue is closed.
  bool HasPlaceFor(int64_t number) const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return closed_ || number < next_ + Capacity();
  }

  /// Whether there is a place for one more item by PushNext, or the queue is
  /// closed.
  bool HasPlace() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return closed_ || size_ < Capacity();
  }

  /// Blocks until there is a place, then gives the item the next number: items
  /// leave in the order in which they come. False, destroying the item, once
  /// closed. REQUIRES: all items are pushed by PushNext; item not null.
  bool PushNext(std::unique_ptr<T> item) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    while (!closed_ && size_ == Capacity()) changed_.Wait(&mutex_);
    if (closed_) return false;
    slots_[(next_ + size_) % Capacity()] = std::move(item);
    ++size_;
    changed_.SignalAll();
    return true;
  }

  /// Blocks until the next item in order is there and takes it. Null at the
  /// end of the items and once closed.
  Numbered Pop() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    while (!CanPop()) changed_.Wait(&mutex_);
    return TakeNext();
  }

  /// Pop, if the next item is there already; a null item otherwise.
  Numbered TryPop() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return CanPop() ? TakeNext() : Numbered();
  }

  /// There are no items from `number` on, although more were announced; those
  /// that are inside are destroyed with the queue. REQUIRES: item `number` is
  /// never pushed.
  void EndAt(int64_t number) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    num_items_ = std::min(num_items_, number);
    changed_.SignalAll();
  }

  /// Wakes all waiting threads and refuses further items; items inside are
  /// destroyed with the queue. Idempotent.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
    changed_.SignalAll();
  }

  /// Number of items inside.
  int64_t size() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return size_;
  }

 private:
  int64_t Capacity() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return static_cast<int64_t>(slots_.size());
  }

  bool CanPop() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return closed_ || next_ == num_items_ ||
           slots_[next_ % Capacity()] != nullptr;
  }

  // REQUIRES: CanPop().
  Numbered TakeNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (closed_ || next_ == num_items_) return {};
    Numbered taken{next_, std::move(slots_[next_ % Capacity()])};
    ++next_;
    --size_;
    changed_.SignalAll();
    return taken;
  }

  mutable absl::Mutex mutex_;
  // Signalled at every change: ThreadSanitizer cannot follow absl::Condition,
  // see third_party/tsan.
  absl::CondVar changed_;
  int64_t num_items_ ABSL_GUARDED_BY(mutex_);
  // Item n waits in slot n % capacity.
  std::vector<std::unique_ptr<T>> slots_ ABSL_GUARDED_BY(mutex_);
  // Number of the item to be taken next.
  int64_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t size_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace hearth::pipeline

#endif  // HEARTH_ENGINE_PIPELINE_ORDERED_QUEUE_H_
