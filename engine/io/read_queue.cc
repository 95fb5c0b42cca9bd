#include "engine/io/read_queue.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "engine/io/queue_kinds.h"
#include "engine/io/uring.h"

namespace hearth::io {

namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

int64_t Nanoseconds(double seconds) {
  return static_cast<int64_t>(std::max(seconds, 0.0) * 1e9);
}

/// Index of the first bound that is not below `nanoseconds`.
size_t Bucket(int64_t nanoseconds) {
  size_t index = 0;
  for (int64_t bound = 1000; index < kLatencyBounds && nanoseconds > bound;
       bound *= 2) {
    ++index;
  }
  return index;
}

}  // namespace

double LatencyBoundSeconds(size_t index) {
  return std::ldexp(1e-6, static_cast<int>(index));
}

void ReadCounters::Submitted(size_t reads) {
  submitted_.fetch_add(static_cast<int64_t>(reads), kRelaxed);
}

void ReadCounters::Succeeded(uint64_t bytes, double seconds) {
  bytes_.fetch_add(static_cast<int64_t>(bytes), kRelaxed);
  Delivered(seconds);
}

void ReadCounters::Failed(double seconds) {
  failed_.fetch_add(1, kRelaxed);
  Delivered(seconds);
}

void ReadCounters::Delivered(double seconds) {
  const int64_t nanoseconds = Nanoseconds(seconds);
  latency_nanoseconds_.fetch_add(nanoseconds, kRelaxed);
  // Release, with the acquire in Snapshot: a read counted here is counted as
  // submitted, too.
  latency_counts_[Bucket(nanoseconds)].fetch_add(1, std::memory_order_release);
}

void ReadCounters::Retried() { retries_.fetch_add(1, kRelaxed); }

void ReadCounters::Reduced() { reduced_.fetch_add(1, kRelaxed); }

void ReadCounters::Waited(double seconds) {
  wait_nanoseconds_.fetch_add(Nanoseconds(seconds), kRelaxed);
}

ReadStatistics ReadCounters::Snapshot() const {
  ReadStatistics statistics;
  for (size_t i = 0; i < latency_counts_.size(); ++i) {
    const int64_t count = latency_counts_[i].load(std::memory_order_acquire);
    statistics.latency_counts[i] = count;
    statistics.reads += count;
  }
  statistics.failed_reads = failed_.load(kRelaxed);
  statistics.retries = retries_.load(kRelaxed);
  statistics.reduced_queues = reduced_.load(kRelaxed);
  statistics.bytes = bytes_.load(kRelaxed);
  statistics.in_flight = submitted_.load(kRelaxed) - statistics.reads;
  statistics.wait_seconds =
      static_cast<double>(wait_nanoseconds_.load(kRelaxed)) * 1e-9;
  statistics.latency_seconds =
      static_cast<double>(latency_nanoseconds_.load(kRelaxed)) * 1e-9;
  return statistics;
}

namespace {

// Most idle queues: more than jobs have threads that read.
constexpr size_t kMaxIdle = 32;

class WarmReadQueues final : public ReadQueues {
 public:
  WarmReadQueues(ReadQueueKind kind, const ReadQueuesOptions& options)
      : kind_(kind),
        has_threads_(options.kind != ReadQueueKind::kIoUring),
        new_ring_(options.new_ring),
        clock_(*options.clock) {}

  absl::StatusOr<Handle> Take(size_t depth) override {
    if (depth == 0 || depth > kMaxReadDepth) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a depth of ", depth, " reads; 1 to ", kMaxReadDepth, " work"));
    }
    std::unique_ptr<ReadQueue> queue = TakeIdle(depth);
    if (queue == nullptr) {
      HEARTH_ASSIGN_OR_RETURN(queue, NewQueue(depth));
    }
    return Handle(queue.release(), GiveBack{this});
  }

  absl::string_view kind() const override {
    return kind_ == ReadQueueKind::kIoUring ? "io_uring" : "threads";
  }

  std::string reduction() const override {
    const absl::MutexLock lock(&mutex_);
    return reduction_;
  }

  ReadStatistics statistics() const override { return counters_.Snapshot(); }

 private:
  absl::StatusOr<std::unique_ptr<ReadQueue>> NewQueue(size_t depth) {
    if (kind_ == ReadQueueKind::kThreads) {
      return NewThreadQueue(depth, counters_, clock_);
    }
    absl::StatusOr<std::unique_ptr<Ring>> ring = new_ring_(depth);
    if (!absl::IsResourceExhausted(ring.status())) {
      HEARTH_RETURN_IF_ERROR(ring.status());
      return NewUringQueue(*std::move(ring), depth, depth, counters_, clock_);
    }
    FreeIdle();
    return NewReducedQueue(depth);
  }

  // A queue over the largest ring that the system grants, or else of threads.
  absl::StatusOr<std::unique_ptr<ReadQueue>> NewReducedQueue(size_t depth)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    size_t entries = depth;
    absl::StatusOr<std::unique_ptr<Ring>> ring = new_ring_(entries);
    const absl::Status refusal = ring.status();
    while (absl::IsResourceExhausted(ring.status()) &&
           entries > kLeastRingEntries) {
      entries = std::max(entries / 2, kLeastRingEntries);
      ring = new_ring_(entries);
    }
    std::unique_ptr<ReadQueue> queue;
    if (ring.ok()) {
      queue =
          NewUringQueue(*std::move(ring), entries, depth, counters_, clock_);
      if (entries == depth) return queue;
    } else if (has_threads_ && absl::IsResourceExhausted(ring.status())) {
      HEARTH_ASSIGN_OR_RETURN(queue, NewThreadQueue(depth, counters_, clock_));
    } else {
      return ring.status();
    }
    counters_.Reduced();
    const absl::MutexLock lock(&mutex_);
    reduced_.insert(queue.get());
    reduction_ = absl::StrCat(
        "no ring for ", depth, " reads at once (", refusal.message(), "); ",
        ring.ok() ? absl::StrCat(entries, " are with the kernel at once")
                  : absl::StrCat(std::min(depth, kMaxReadThreads),
                                 " threads read instead"));
    return queue;
  }

  void FreeIdle() ABSL_LOCKS_EXCLUDED(mutex_) {
    // Destroyed outside the lock.
    std::vector<std::unique_ptr<ReadQueue>> freed;
    const absl::MutexLock lock(&mutex_);
    freed.swap(idle_);
  }

  std::unique_ptr<ReadQueue> TakeIdle(size_t depth)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    const absl::MutexLock lock(&mutex_);
    const auto found = std::find_if(
        idle_.rbegin(), idle_.rend(),
        [&](const auto& queue) { return queue->depth() == depth; });
    if (found == idle_.rend()) return nullptr;
    std::unique_ptr<ReadQueue> queue = std::move(*found);
    idle_.erase(std::next(found).base());
    return queue;
  }

  void Return(std::unique_ptr<ReadQueue> queue) override
      ABSL_LOCKS_EXCLUDED(mutex_) {
    // A user that leaves reads behind frees their memory: such a queue waits
    // for the reads and is destroyed.
    if (queue->in_flight() > 0) {
      const absl::MutexLock lock(&mutex_);
      reduced_.erase(queue.get());
      return;
    }
    // Destroyed outside the lock.
    std::unique_ptr<ReadQueue> oldest;
    const absl::MutexLock lock(&mutex_);
    // A new queue may get a full ring.
    if (reduced_.erase(queue.get()) > 0) {
      oldest = std::move(queue);
      return;
    }
    if (idle_.size() == kMaxIdle) {
      oldest = std::move(idle_.front());
      idle_.erase(idle_.begin());
    }
    idle_.push_back(std::move(queue));
  }

  const ReadQueueKind kind_;
  // Whether threads read where the system grants no ring.
  const bool has_threads_;
  const RingMaker new_ring_;
  const Clock& clock_;
  ReadCounters counters_;
  mutable absl::Mutex mutex_;
  // In the order in which they were given back.
  std::vector<std::unique_ptr<ReadQueue>> idle_ ABSL_GUARDED_BY(mutex_);
  // Reduced queues in use.
  std::set<const ReadQueue*> reduced_ ABSL_GUARDED_BY(mutex_);
  std::string reduction_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

void ReadQueues::GiveBack::operator()(ReadQueue* queue) const {
  owner->Return(std::unique_ptr<ReadQueue>(queue));
}

absl::StatusOr<std::unique_ptr<ReadQueues>> ReadQueues::Create(
    const ReadQueuesOptions& options) {
  ReadQueueKind kind = options.kind;
  if (kind != ReadQueueKind::kThreads) {
    const absl::Status ring = options.new_ring(1).status();
    if (!ring.ok() && kind == ReadQueueKind::kIoUring) return ring;
    kind = ring.ok() ? ReadQueueKind::kIoUring : ReadQueueKind::kThreads;
  }
  return std::make_unique<WarmReadQueues>(kind, options);
}

}  // namespace hearth::io
