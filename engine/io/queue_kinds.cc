#include "engine/io/queue_kinds.h"

#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "engine/base/status.h"
#include "engine/io/descriptor.h"

namespace hearth::io {

namespace {

// The kernel reads a little under 2 GiB at once; a multiple of every alignment.
constexpr size_t kMaxAttemptBytes = size_t{1} << 30;

}  // namespace

absl::Span<std::byte> ReadProgress::out() const {
  return request_.out.subspan(offset_ - request_.offset, kMaxAttemptBytes);
}

uint64_t ReadProgress::End() const {
  const uint64_t size =
      std::max(request_.device->size_bytes(), request_.offset);
  return std::min(request_.offset + request_.out.size(), size);
}

ReadProgress::Next ReadProgress::Advance(ssize_t outcome) {
  if (outcome > 0) return Advanced(static_cast<uint64_t>(outcome));
  const auto error = static_cast<int>(-outcome);
  if (error == 0) return EndAt(offset_);
  if (error == EINTR) return Next::kRead;
  if (error == EIO || error == EAGAIN) return Retry(error);
  status_ = ErrnoStatus(error, device().path(),
                        absl::StrCat("reading at byte ", offset_));
  return Next::kDone;
}

ReadProgress::Next ReadProgress::EndAt(uint64_t offset) {
  const uint64_t end = request_.offset + request_.out.size();
  status_ = absl::DataLossError(
      absl::StrCat(device().path(), ": ends at byte ", offset, "; bytes ",
                   request_.offset, " to ", end, " were asked for"));
  return Next::kDone;
}

ReadProgress::Next ReadProgress::Advanced(uint64_t count) {
  if (offset_ + count >= End()) return Next::kDone;
  const uint64_t page = uint64_t{request_.device->alignment()} - 1;
  const uint64_t next = (offset_ + count) & ~page;
  // A direct read ends within a page only at the end of the file.
  if (next == offset_) return EndAt(offset_ + count);
  offset_ = next;
  retry_ = 0;
  return Next::kRead;
}

ReadProgress::Next ReadProgress::Retry(int error) {
  if (retry_ < kMaxReadRetries) {
    ++retry_;
    return Next::kRetry;
  }
  status_ = ErrnoStatus(error, device().path(),
                        absl::StrCat("reading at byte ", offset_));
  return Next::kDone;
}

void ReadProgress::Fail(const absl::Status& error) {
  status_ = Annotate(
      error, absl::StrCat(device().path(), ": reading at byte ", offset_));
}

ReadResult Deliver(const ReadProgress& progress, double seconds,
                   ReadCounters& counters) {
  if (progress.status().ok()) {
    counters.Succeeded(progress.bytes(), seconds);
  } else {
    counters.Failed(seconds);
  }
  return {progress.tag(), progress.status()};
}

absl::Status CheckRequests(absl::Span<const ReadRequest> requests,
                           size_t free) {
  if (requests.size() > free) {
    return absl::InvalidArgumentError(
        absl::StrCat(requests.size(), " reads submitted to a queue with room ",
                     "for ", free));
  }
  for (const ReadRequest& request : requests) {
    const auto address = reinterpret_cast<uintptr_t>(request.out.data());
    const uint64_t page = uint64_t{request.device->alignment()} - 1;
    if (request.out.empty() ||
        ((request.offset | request.out.size() | address) & page) != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          request.device->path(), ": a read of ", request.out.size(),
          " bytes at ", request.offset, " into memory at ",
          address % (page + 1), " past a page is not aligned to ", page + 1));
    }
  }
  return absl::OkStatus();
}

// ThreadQueue: a read lives in a slot. The owner takes a free slot, fills it
// and appends its number to the list of waiting slots; a thread takes the
// number, reads, and appends it to the list of finished slots; the owner
// collects the number there and frees the slot. So a slot has one user at any
// time, and only the two lists of numbers are shared.

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

  /// By pthread_create: std::thread throws when the system gives no thread.
  absl::Status StartThreads() {
    const size_t count = std::min(slots_.size(), kMaxReadThreads);
    while (threads_.size() < count) {
      pthread_t thread;
      const int error = ::pthread_create(&thread, nullptr, Run, this);
      if (error != 0) {
        // Whatever the error's code: the limit on threads gives EAGAIN.
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

// The protocol of UringQueue:
//  1. A read takes a free slot, whose number is its tag in the ring, and an
//     entry is prepared for its first attempt; in a ring smaller than the
//     queue, as soon as another read leaves it.
//  2. Submit enters the kernel once for all its entries. What the kernel does
//     not take (EAGAIN, EINTR) stays prepared; Wait goes on with it.
//  3. Wait reaps. A completion either ends its read, or prepares the next
//     entry of the same slot: the rest of a short read, or a timeout after
//     which the attempt is made again.
//  4. So a slot has one entry at most in the ring, from its first attempt to
//     its end, and no more slots are there than the ring has room for: no
//     completion is ever without room.
//  5. If the kernel takes no entries and has none to wait for, the entries are
//     offered again after the delays of a failed read. Then they are withdrawn,
//     and their reads fail.

namespace {

/// Whether a refusal by the kernel (a negative errno) may be over soon.
bool MayPass(int error) {
  return error == -EINTR || error == -EAGAIN || error == -EBUSY ||
         error == -ENOMEM;
}

class UringQueue final : public ReadQueue {
 public:
  UringQueue(std::unique_ptr<Ring> ring, size_t entries, size_t depth,
             ReadCounters& counters, const Clock& clock)
      : ring_(std::move(ring)),
        entries_(entries),
        counters_(counters),
        clock_(clock),
        slots_(depth),
        waiting_(depth) {
    for (size_t i = depth; i > 0; --i) free_.push_back(i - 1);
    completions_.reserve(depth);
    finished_.reserve(depth);
  }

  ~UringQueue() override {
    std::vector<ReadResult> results;
    Wait(in_flight(), results).IgnoreError();
  }

  size_t depth() const override { return slots_.size(); }
  size_t in_flight() const override { return slots_.size() - free_.size(); }

  absl::Status Submit(absl::Span<const ReadRequest> requests) override;
  absl::Status Wait(size_t at_least, std::vector<ReadResult>& results) override;
  Registration Register(BlockDevice& device,
                        absl::Span<std::byte> memory) override;
  void Unregister(BlockDevice& device, absl::Span<std::byte> memory) override;

 private:
  struct Slot {
    ReadProgress progress;
    /// Numbers of the registered file and memory, or -1.
    int file = -1;
    int memory = -1;
    double submitted_seconds = 0;
    /// The entry in the ring is a timeout, not an attempt.
    bool delaying = false;
  };

  struct Registered {
    const BlockDevice* device;
    absl::Span<std::byte> memory;
    int file_number;
    int memory_number;
  };

  void Start(const ReadRequest& request, double now);
  void FindRegistered(const ReadRequest& request, Slot& slot) const;
  void ReadNow(ReadProgress& progress);
  void PrepareAttempt(size_t number);
  // Moves waiting slots into the ring, as many as fit.
  void PrepareWaiting();
  // Reads that the kernel has and that have not ended.
  size_t in_kernel() const { return in_ring_ - ring_->prepared(); }
  void Reap();
  void Completed(const RingCompletion& completion);
  absl::Status Enter(size_t wait_for);
  absl::Status BearRefusal(int error);
  void FailPrepared(int error);
  void Deliver(std::vector<ReadResult>& results);

  const std::unique_ptr<Ring> ring_;
  // Slots that fit into the ring, and slots that are in it.
  const size_t entries_;
  size_t in_ring_ = 0;
  ReadCounters& counters_;
  const Clock& clock_;
  std::vector<Slot> slots_;
  std::vector<size_t> free_;
  // Slots that wait for the ring, in order: num_waiting_ numbers from next_ on,
  // around the end.
  std::vector<size_t> waiting_;
  size_t next_ = 0;
  size_t num_waiting_ = 0;
  // Slots whose reads have ended, not yet delivered.
  std::vector<size_t> finished_;
  std::vector<RingCompletion> completions_;
  std::vector<Registered> registered_;
  // Times in a row that the kernel took no entry and had none in flight.
  int refusals_ = 0;
};

absl::Status UringQueue::Submit(absl::Span<const ReadRequest> requests) {
  HEARTH_RETURN_IF_ERROR(CheckRequests(requests, free_.size()));
  counters_.Submitted(requests.size());
  const double now = clock_.SteadySeconds();
  for (const ReadRequest& request : requests) Start(request, now);
  PrepareWaiting();
  if (ring_->prepared() == 0) return absl::OkStatus();
  const int error = ring_->Enter(0);
  if (error == 0 || MayPass(error)) return absl::OkStatus();
  return ErrnoStatus(-error, "io_uring", "submitting reads");
}

void UringQueue::Start(const ReadRequest& request, double now) {
  const size_t number = free_.back();
  free_.pop_back();
  Slot& slot = slots_[number];
  slot = {.progress = ReadProgress(request), .submitted_seconds = now};
  if (request.device->descriptor() < 0) {
    ReadNow(slot.progress);
    finished_.push_back(number);
    return;
  }
  FindRegistered(request, slot);
  waiting_[(next_ + num_waiting_++) % waiting_.size()] = number;
}

void UringQueue::PrepareWaiting() {
  for (; num_waiting_ > 0 && in_ring_ < entries_; --num_waiting_, ++in_ring_) {
    PrepareAttempt(waiting_[next_]);
    next_ = (next_ + 1) % waiting_.size();
  }
}

void UringQueue::FindRegistered(const ReadRequest& request, Slot& slot) const {
  const std::byte* begin = request.out.data();
  const std::byte* end = begin + request.out.size();
  for (const Registered& known : registered_) {
    if (known.device == request.device && known.file_number >= 0) {
      slot.file = known.file_number;
    }
    if (known.memory_number >= 0 && begin >= known.memory.data() &&
        end <= known.memory.data() + known.memory.size()) {
      slot.memory = known.memory_number;
    }
  }
}

void UringQueue::ReadNow(ReadProgress& progress) {
  while (true) {
    const ssize_t outcome =
        progress.device().ReadOnce(progress.offset(), progress.out());
    const ReadProgress::Next next = progress.Advance(outcome);
    if (next == ReadProgress::Next::kDone) return;
    if (next == ReadProgress::Next::kRetry) {
      counters_.Retried();
      absl::SleepFor(RetryDelay(progress.retry()));
    }
  }
}

void UringQueue::PrepareAttempt(size_t number) {
  Slot& slot = slots_[number];
  slot.delaying = false;
  ring_->PrepareRead({.tag = number,
                      .descriptor = slot.progress.device().descriptor(),
                      .file = slot.file,
                      .memory = slot.memory,
                      .offset = slot.progress.offset(),
                      .out = slot.progress.out()});
}

absl::Status UringQueue::Wait(size_t at_least,
                              std::vector<ReadResult>& results) {
  results.clear();
  const size_t wanted = std::min(at_least, in_flight());
  Reap();
  while (finished_.size() < wanted || ring_->prepared() > 0) {
    // At most the reads in the ring can complete before others enter it.
    HEARTH_RETURN_IF_ERROR(
        Enter(std::min(wanted - std::min(wanted, finished_.size()), in_ring_)));
    Reap();
  }
  Deliver(results);
  if (ring_->overflows() == 0) return absl::OkStatus();
  return absl::InternalError("io_uring: completions were lost");
}

void UringQueue::Reap() {
  completions_.clear();
  ring_->Reap(completions_);
  for (const RingCompletion& completion : completions_) Completed(completion);
  PrepareWaiting();
}

void UringQueue::Completed(const RingCompletion& completion) {
  const size_t number = completion.tag;
  Slot& slot = slots_[number];
  const ReadProgress::Next next =
      slot.delaying ? ReadProgress::Next::kRead
                    : slot.progress.Advance(completion.result);
  switch (next) {
    case ReadProgress::Next::kDone:
      finished_.push_back(number);
      --in_ring_;
      break;
    case ReadProgress::Next::kRead:
      PrepareAttempt(number);
      break;
    case ReadProgress::Next::kRetry:
      counters_.Retried();
      slot.delaying = true;
      ring_->PrepareTimeout(number, RetryDelay(slot.progress.retry()));
      break;
  }
}

absl::Status UringQueue::Enter(size_t wait_for) {
  const double began = clock_.SteadySeconds();
  const int error = ring_->Enter(wait_for);
  if (wait_for > 0) counters_.Waited(clock_.SteadySeconds() - began);
  if (error == 0) refusals_ = 0;
  if (error == 0 || error == -EINTR) return absl::OkStatus();
  if (MayPass(error)) return BearRefusal(error);
  return ErrnoStatus(-error, "io_uring", "waiting for reads");
}

absl::Status UringQueue::BearRefusal(int error) {
  if (in_kernel() > 0) {
    // Reads that end give back the resources that the kernel lacks.
    const int waited = ring_->WaitForOne();
    if (waited == 0 || waited == -EINTR) return absl::OkStatus();
    return ErrnoStatus(-waited, "io_uring", "waiting for reads");
  }
  if (refusals_ < kMaxReadRetries) {
    counters_.Retried();
    absl::SleepFor(RetryDelay(++refusals_));
  } else {
    refusals_ = 0;
    FailPrepared(error);
  }
  return absl::OkStatus();
}

void UringQueue::FailPrepared(int error) {
  const absl::Status status = absl::ResourceExhaustedError(
      ErrnoStatus(-error, "io_uring", "submitting").message());
  std::vector<uint64_t> withdrawn;
  ring_->Withdraw(withdrawn);
  for (const uint64_t number : withdrawn) {
    slots_[number].progress.Fail(status);
    finished_.push_back(number);
  }
  in_ring_ -= withdrawn.size();
  PrepareWaiting();
}

void UringQueue::Deliver(std::vector<ReadResult>& results) {
  const double now = clock_.SteadySeconds();
  for (const size_t number : finished_) {
    const Slot& slot = slots_[number];
    results.push_back(
        io::Deliver(slot.progress, now - slot.submitted_seconds, counters_));
    free_.push_back(number);
  }
  finished_.clear();
}

Registration UringQueue::Register(BlockDevice& device,
                                  absl::Span<std::byte> memory) {
  Registered added{&device, memory, -1, -1};
  if (device.descriptor() >= 0) {
    added.file_number = ring_->RegisterFile(device.descriptor());
    if (!memory.empty()) added.memory_number = ring_->RegisterMemory(memory);
  }
  registered_.push_back(added);
  return {.file = added.file_number >= 0, .memory = added.memory_number >= 0};
}

void UringQueue::Unregister(BlockDevice& device, absl::Span<std::byte> memory) {
  const auto found = std::find_if(
      registered_.begin(), registered_.end(), [&](const Registered& known) {
        return known.device == &device && known.memory.data() == memory.data();
      });
  if (found == registered_.end()) return;
  if (found->file_number >= 0) ring_->UnregisterFile(found->file_number);
  if (found->memory_number >= 0) ring_->UnregisterMemory(found->memory_number);
  registered_.erase(found);
}

}  // namespace

std::unique_ptr<ReadQueue> NewUringQueue(std::unique_ptr<Ring> ring,
                                         size_t entries, size_t depth,
                                         ReadCounters& counters,
                                         const Clock& clock) {
  return std::make_unique<UringQueue>(std::move(ring), entries, depth, counters,
                                      clock);
}

}  // namespace hearth::io
