#include "engine/io/thread_queue.h"

#include <pthread.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "engine/base/status_annotate.h"
#include "engine/base/status_macros.h"
#include "engine/io/read_progress.h"
#include "engine/io/transfer.h"

// A read lives in a slot. The owner takes a free slot, fills it and puts its
// number among the waiting; a thread takes the number, reads, and puts it among
// the finished; the owner collects it there and frees it. So a slot has one
// user at any time, and only the two lists of numbers are shared.

namespace hearth::io {
namespace {

class ThreadQueue final : public ReadQueue {
 public:
  ThreadQueue(size_t depth, ReadCounters& counters, const Clock& clock)
      : counters_(counters), clock_(clock), slots_(depth), waiting_(depth) {
    for (size_t i = depth; i > 0; --i) free_.push_back(i - 1);
    finished_.reserve(depth);
    collected_.reserve(depth);
  }

  ~ThreadQueue() override {
    std::vector<ReadResult> results;
    Wait(in_flight(), results).IgnoreError();
    {
      const absl::MutexLock lock(&mutex_);
      stopping_ = true;
      work_.SignalAll();
    }
    for (const pthread_t thread : threads_) ::pthread_join(thread, nullptr);
  }

  /// Not std::thread, which throws when the system has no more.
  absl::Status StartThreads() {
    const size_t count = std::min(slots_.size(), kMaxReadThreads);
    while (threads_.size() < count) {
      pthread_t thread;
      const int error = ::pthread_create(&thread, nullptr, Run, this);
      if (error != 0) {
        // Whatever it says: the limit on threads gives EAGAIN.
        return absl::ResourceExhaustedError(
            ErrnoStatus(error, "read queue",
                        absl::StrCat("starting thread ", threads_.size() + 1,
                                     " of ", count))
                .message());
      }
      threads_.push_back(thread);
    }
    return absl::OkStatus();
  }

  size_t depth() const override { return slots_.size(); }
  size_t in_flight() const override { return slots_.size() - free_.size(); }

  absl::Status Submit(absl::Span<const ReadRequest> requests) override;
  absl::Status Wait(size_t at_least, std::vector<ReadResult>& results) override;

  Registration Register(BlockDevice& device,
                        absl::Span<std::byte> memory) override {
    return {};
  }
  void Unregister(BlockDevice& device, absl::Span<std::byte> memory) override {}

 private:
  struct Slot {
    ReadProgress progress;
    double submitted_seconds = 0;
  };

  static void* Run(void* queue) {
    static_cast<ThreadQueue*>(queue)->ServeReads();
    return nullptr;
  }

  void ServeReads() ABSL_LOCKS_EXCLUDED(mutex_);
  void ReadWhole(ReadProgress& progress);

  ReadCounters& counters_;
  const Clock& clock_;
  std::vector<Slot> slots_;
  std::vector<size_t> free_;
  std::vector<size_t> collected_;
  std::vector<pthread_t> threads_;

  absl::Mutex mutex_;
  absl::CondVar work_;  // num_waiting_ grew, or stopping_.
  absl::CondVar done_;  // finished_ holds wanted_ numbers.
  // A ring: num_waiting_ numbers from next_ on.
  std::vector<size_t> waiting_ ABSL_GUARDED_BY(mutex_);
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t num_waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<size_t> finished_ ABSL_GUARDED_BY(mutex_);
  size_t wanted_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

absl::Status ThreadQueue::Submit(absl::Span<const ReadRequest> requests) {
  HEARTH_RETURN_IF_ERROR(CheckRequests(requests, free_.size()));
  const double now = clock_.SteadySeconds();
  counters_.Submitted(requests.size());
  const absl::MutexLock lock(&mutex_);
  for (const ReadRequest& request : requests) {
    const size_t number = free_.back();
    free_.pop_back();
    slots_[number] = {ReadProgress(request), now};
    waiting_[(next_ + num_waiting_++) % waiting_.size()] = number;
    work_.Signal();
  }
  return absl::OkStatus();
}

absl::Status ThreadQueue::Wait(size_t at_least,
                               std::vector<ReadResult>& results) {
  results.clear();
  collected_.clear();
  const size_t wanted = std::min(at_least, in_flight());
  {
    const absl::MutexLock lock(&mutex_);
    if (finished_.size() < wanted) {
      const double began = clock_.SteadySeconds();
      wanted_ = wanted;
      while (finished_.size() < wanted) done_.Wait(&mutex_);
      wanted_ = 0;
      counters_.Waited(clock_.SteadySeconds() - began);
    }
    collected_.swap(finished_);
  }
  const double now = clock_.SteadySeconds();
  for (const size_t number : collected_) {
    const Slot& slot = slots_[number];
    results.push_back(
        io::Deliver(slot.progress, now - slot.submitted_seconds, counters_));
    free_.push_back(number);
  }
  return absl::OkStatus();
}

void ThreadQueue::ServeReads() {
  while (true) {
    size_t number;
    {
      const absl::MutexLock lock(&mutex_);
      while (num_waiting_ == 0 && !stopping_) work_.Wait(&mutex_);
      if (num_waiting_ == 0) return;
      number = waiting_[next_];
      next_ = (next_ + 1) % waiting_.size();
      --num_waiting_;
    }
    ReadWhole(slots_[number].progress);
    const absl::MutexLock lock(&mutex_);
    finished_.push_back(number);
    if (finished_.size() == wanted_) done_.Signal();
  }
}

void ThreadQueue::ReadWhole(ReadProgress& progress) {
  while (true) {
    const ssize_t outcome =
        progress.device().ReadOnce(progress.offset(), progress.out());
    switch (progress.Advance(outcome)) {
      case ReadProgress::Next::kDone:
        return;
      case ReadProgress::Next::kRetry:
        counters_.Retried();
        absl::SleepFor(RetryDelay(progress.retry()));
        break;
      case ReadProgress::Next::kRead:
        break;
    }
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<ReadQueue>> NewThreadQueue(
    size_t depth, ReadCounters& counters, const Clock& clock) {
  auto queue = std::make_unique<ThreadQueue>(depth, counters, clock);
  HEARTH_RETURN_IF_ERROR(queue->StartThreads());
  return queue;
}

}  // namespace hearth::io
