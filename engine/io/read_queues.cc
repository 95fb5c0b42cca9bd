#include "engine/io/read_queues.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/io/thread_queue.h"
#include "engine/io/uring.h"
#include "engine/io/uring_queue.h"

namespace hearth::io {
namespace {

// More idle queues than jobs have threads that read.
constexpr size_t kMaxIdle = 32;

class WarmReadQueues final : public ReadQueues {
 public:
  WarmReadQueues(ReadQueueKind kind, const Clock& clock)
      : kind_(kind), clock_(clock) {}

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

  ReadStatistics statistics() const override { return counters_.Snapshot(); }

 private:
  absl::StatusOr<std::unique_ptr<ReadQueue>> NewQueue(size_t depth) {
    if (kind_ == ReadQueueKind::kThreads) {
      return NewThreadQueue(depth, counters_, clock_);
    }
    HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<Ring> ring, NewKernelRing(depth));
    return NewUringQueue(std::move(ring), depth, counters_, clock_);
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
    // A user that left reads behind freed their memory: such a queue only waits
    // for them, and goes.
    if (queue->in_flight() > 0) return;
    // Destroyed outside the lock.
    std::unique_ptr<ReadQueue> oldest;
    const absl::MutexLock lock(&mutex_);
    if (idle_.size() == kMaxIdle) {
      oldest = std::move(idle_.front());
      idle_.erase(idle_.begin());
    }
    idle_.push_back(std::move(queue));
  }

  const ReadQueueKind kind_;
  const Clock& clock_;
  ReadCounters counters_;
  absl::Mutex mutex_;
  // The one given back last is the last.
  std::vector<std::unique_ptr<ReadQueue>> idle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

void ReadQueues::GiveBack::operator()(ReadQueue* queue) const {
  owner->Return(std::unique_ptr<ReadQueue>(queue));
}

absl::StatusOr<std::unique_ptr<ReadQueues>> ReadQueues::Create(
    const ReadQueuesOptions& options) {
  ReadQueueKind kind = options.kind;
  if (kind != ReadQueueKind::kThreads) {
    const absl::Status ring = NewKernelRing(1).status();
    if (!ring.ok() && kind == ReadQueueKind::kIoUring) return ring;
    kind = ring.ok() ? ReadQueueKind::kIoUring : ReadQueueKind::kThreads;
  }
  return std::make_unique<WarmReadQueues>(kind, *options.clock);
}

}  // namespace hearth::io
