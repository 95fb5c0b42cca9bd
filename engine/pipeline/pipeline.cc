#include "engine/pipeline/pipeline.h"

#include <algorithm>
#include <cassert>
#include <deque>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/status.h"
#include "engine/pipeline/ordered_queue.h"

namespace hearth::pipeline {

void StageMeter::Switch(int thread, Activity activity) {
  absl::MutexLock lock(&mutex_);
  const double now = clock_.SteadySeconds();
  Thread& state = threads_[thread];
  seconds_[static_cast<int>(state.activity)] += now - state.since;
  state = {.activity = activity, .since = now};
}

void StageMeter::CountItem() {
  absl::MutexLock lock(&mutex_);
  ++items_;
}

StageMeter::Totals StageMeter::Read() const {
  absl::MutexLock lock(&mutex_);
  const double now = clock_.SteadySeconds();
  Seconds seconds = seconds_;
  for (const Thread& thread : threads_) {
    seconds[static_cast<int>(thread.activity)] += now - thread.since;
  }
  return {
      .starved_seconds = seconds[static_cast<int>(Activity::kStarved)],
      .busy_seconds = seconds[static_cast<int>(Activity::kBusy)],
      .blocked_seconds = seconds[static_cast<int>(Activity::kBlocked)],
      .items = items_,
  };
}

// The protocol of ThreadedPipeline:
//
//  1. Run makes one OrderedQueue behind each stage and starts the stages'
//     threads. The sink is a last stage of one thread, the calling one, that
//     keeps its items.
//  2. A thread of the first stage claims the next number and makes its item;
//     one of another stage takes the next item from the queue before it. So
//     every number that was claimed is held by one thread or one queue.
//  3. The thread works on its item without a lock and pushes it, which blocks
//     until the queue has a place for that number. The number that the other
//     side waits for always has one (see OrderedQueue), so some thread can
//     always go on.
//     Each thread of a stage with a loop takes and pushes through its ports, in
//     order, and may hold several items in between. It pushes the oldest first,
//     so that the number that is waited for is never behind one that waits.
//  4. The end needs no message: a thread ends when the next number is beyond
//     the last. If there are fewer items than were announced, the thread of the
//     first stage that finds out tells all queues (EndAt).
//  5. The first error, of a stage or the sink, or a requested stop, is recorded
//     by Stop, which closes all queues. Closing wakes every thread that waits;
//     one that works finds its push refused. Work is not interrupted, and no
//     number is claimed any more.
//  6. Run joins all threads, unregisters the stop callback, destroys the queues
//     with the items left in them, and returns the recorded status.
//
// mutex_ guards the recorded status and the list of queues, and may be held
// when a queue's own lock is taken, never the other way round. Items are made,
// worked on and destroyed without any lock.

namespace {

using Queue = OrderedQueue<Item>;
using MakeItem = std::function<std::unique_ptr<Item>(int64_t number)>;

class ThreadedPipeline final : public Pipeline {
 public:
  ThreadedPipeline(std::vector<Stage> stages, std::string sink_name,
                   const Clock& clock, Order order)
      : order_(order), stages_(std::move(stages)) {
    for (size_t i = 0; i < stages_.size(); ++i) {
      assert(stages_[i].loop == nullptr || i > 0);
    }
    stages_.push_back({.name = std::move(sink_name)});
    for (const Stage& stage : stages_) {
      meters_.push_back(std::make_unique<StageMeter>(stage.width, clock));
    }
  }

  absl::Status Run(int64_t num_items, const MakeItem& make, const Sink& sink,
                   std::stop_token stop) override {
    const std::vector<Queue*> queues = OpenQueues(num_items);
    {
      const std::stop_callback on_stop(std::move(stop), [this] {
        Stop(absl::CancelledError("stopped on request"));
      });
      std::vector<std::thread> threads = StartThreads(make, queues);
      RunSink(sink, *queues.back());
      for (std::thread& thread : threads) thread.join();
    }
    return CloseDown();
  }

  std::vector<StageStats> Stats() const override ABSL_LOCKS_EXCLUDED(mutex_) {
    std::vector<StageStats> result;
    for (size_t i = 0; i < stages_.size(); ++i) {
      const StageMeter::Totals totals = meters_[i]->Read();
      result.push_back({.name = stages_[i].name,
                        .threads = stages_[i].width,
                        .busy_seconds = totals.busy_seconds,
                        .starved_seconds = totals.starved_seconds,
                        .blocked_seconds = totals.blocked_seconds,
                        .items = totals.items});
    }
    absl::MutexLock lock(&mutex_);
    for (size_t i = 0; i < queues_.size(); ++i) {
      result[i].queue_length = queues_[i]->size();
    }
    return result;
  }

 private:
  using TakeItem = std::function<Queue::Numbered()>;

  // Queue i stands between stages i and i + 1.
  std::vector<Queue*> OpenQueues(int64_t num_items)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    end_ = num_items;
    std::vector<Queue*> queues;
    for (size_t i = 0; i + 1 < stages_.size(); ++i) {
      queues_.push_back(
          std::make_unique<Queue>(stages_[i].queue_capacity, num_items));
      queues.push_back(queues_.back().get());
    }
    return queues;
  }

  std::vector<std::thread> StartThreads(const MakeItem& make,
                                        const std::vector<Queue*>& queues) {
    std::vector<std::thread> threads;
    try {
      for (size_t i = 0; i < queues.size(); ++i) {
        if (stages_[i].loop != nullptr) {
          for (int thread = 0; thread < stages_[i].width; ++thread) {
            threads.emplace_back(
                [this, i, thread, in = queues[i - 1], out = queues[i]] {
                  RunLoop(i, thread, *in, *out);
                });
          }
          continue;
        }
        const TakeItem take =
            i == 0 ? TakeItem([this, &make] { return MakeNext(make); })
                   : TakeItem([in = queues[i - 1]] { return in->Pop(); });
        for (int thread = 0; thread < stages_[i].width; ++thread) {
          threads.emplace_back([this, i, thread, take, out = queues[i]] {
            RunThread(i, thread, take, *out);
          });
        }
      }
    } catch (const std::system_error& error) {
      Stop(absl::ResourceExhaustedError(
          absl::StrCat("starting a thread of the pipeline: ", error.what())));
    }
    return threads;
  }

  // Steps 2 and 3 for one thread of a stage.
  void RunThread(size_t stage, int thread, const TakeItem& take, Queue& out) {
    StageMeter& meter = *meters_[stage];
    while (true) {
      meter.Switch(thread, Activity::kStarved);
      Queue::Numbered taken;
      absl::Status status = CatchExceptions([&] {
        taken = take();
        if (taken.item == nullptr) return absl::OkStatus();
        meter.Switch(thread, Activity::kBusy);
        return stages_[stage].work(thread, *taken.item);
      });
      if (status.ok() && taken.item == nullptr) break;
      if (!status.ok()) {
        Stop(std::move(status));
        break;
      }
      meter.CountItem();
      meter.Switch(thread, Activity::kBlocked);
      if (!Push(out, std::move(taken))) break;
    }
    meter.Switch(thread, Activity::kAbsent);
  }

  // The ports of one thread of a stage with a loop.
  class Ports final : public StagePorts {
   public:
    Ports(const ThreadedPipeline& pipeline, StageMeter& meter, int thread,
          Queue& in, Queue& out)
        : pipeline_(pipeline),
          meter_(meter),
          thread_(thread),
          in_(in),
          out_(out) {}

    int thread() const override { return thread_; }

    std::unique_ptr<Item> Take() override {
      meter_.Switch(thread_, Activity::kStarved);
      return Hold(in_.Pop());
    }

    std::unique_ptr<Item> TryTake() override { return Hold(in_.TryPop()); }

    bool CanPut() const override {
      if (pipeline_.order_ == Order::kAsDone) return out_.HasPlace();
      return out_.HasPlaceFor(held_.front());
    }

    bool Put(std::unique_ptr<Item> item) override {
      meter_.CountItem();
      meter_.Switch(thread_, Activity::kBlocked);
      const int64_t number = held_.front();
      held_.pop_front();
      const bool put = pipeline_.Push(out_, {number, std::move(item)});
      meter_.Switch(thread_, Activity::kBusy);
      return put;
    }

    // Whether there is an item that was taken and not put, or one to take.
    bool HasMore() { return !held_.empty() || Take() != nullptr; }

   private:
    std::unique_ptr<Item> Hold(Queue::Numbered taken) {
      meter_.Switch(thread_, Activity::kBusy);
      if (taken.item != nullptr) held_.push_back(taken.number);
      return std::move(taken.item);
    }

    const ThreadedPipeline& pipeline_;
    StageMeter& meter_;
    const int thread_;
    Queue& in_;
    Queue& out_;
    // The numbers of the items that were taken and not put.
    std::deque<int64_t> held_;
  };

  void RunLoop(size_t stage, int thread, Queue& in, Queue& out) {
    StageMeter& meter = *meters_[stage];
    meter.Switch(thread, Activity::kBusy);
    Ports ports(*this, meter, thread, in, out);
    absl::Status status =
        CatchExceptions([&] { return stages_[stage].loop(ports); });
    if (status.ok() && ports.HasMore()) {
      // Without effect if the run has ended early.
      status = absl::InternalError(absl::StrCat("stage ", stages_[stage].name,
                                                " has kept items for itself"));
    }
    if (!status.ok()) Stop(std::move(status));
    meter.Switch(thread, Activity::kAbsent);
  }

  // Steps 2 and 3 for the sink, on the calling thread.
  void RunSink(const Sink& sink, Queue& in) {
    StageMeter& meter = *meters_.back();
    while (true) {
      meter.Switch(0, Activity::kStarved);
      Queue::Numbered taken = in.Pop();
      if (taken.item == nullptr) break;
      meter.Switch(0, Activity::kBusy);
      // An exception that left Run would leave the threads alone with the
      // caller's items.
      absl::Status status =
          CatchExceptions([&] { return sink(std::move(taken.item)); });
      if (!status.ok()) {
        Stop(std::move(status));
        break;
      }
      meter.CountItem();
    }
    meter.Switch(0, Activity::kAbsent);
  }

  bool Push(Queue& out, Queue::Numbered done) const {
    if (order_ == Order::kAsDone) return out.PushNext(std::move(done.item));
    return out.Push(done.number, std::move(done.item));
  }

  Queue::Numbered MakeNext(const MakeItem& make) ABSL_LOCKS_EXCLUDED(mutex_) {
    int64_t number = 0;
    {
      absl::MutexLock lock(&mutex_);
      if (!status_.ok() || claimed_ >= end_) return {};
      number = claimed_++;
    }
    std::unique_ptr<Item> item = make(number);
    if (item == nullptr) EndAt(number);
    return {number, std::move(item)};
  }

  void EndAt(int64_t number) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    end_ = std::min(end_, number);
    for (const std::unique_ptr<Queue>& queue : queues_) queue->EndAt(number);
  }

  void Stop(absl::Status status) ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      absl::MutexLock lock(&mutex_);
      if (!status_.ok()) return;
      status_ = std::move(status);
      for (const std::unique_ptr<Queue>& queue : queues_) queue->Close();
    }
    for (const Stage& stage : stages_) {
      if (stage.interrupt) stage.interrupt();
    }
  }

  absl::Status CloseDown() ABSL_LOCKS_EXCLUDED(mutex_) {
    std::vector<std::unique_ptr<Queue>> queues;
    absl::MutexLock lock(&mutex_);
    queues.swap(queues_);  // Destroyed once unlocked, as declared before.
    return status_;
  }

  const Order order_;
  // The caller's stages and, last, one for the sink. Constant once threads run.
  std::vector<Stage> stages_;
  std::vector<std::unique_ptr<StageMeter>> meters_;
  mutable absl::Mutex mutex_;
  std::vector<std::unique_ptr<Queue>> queues_ ABSL_GUARDED_BY(mutex_);
  // Number of items.
  int64_t end_ ABSL_GUARDED_BY(mutex_) = 0;
  // Numbers given to the first stage's threads.
  int64_t claimed_ ABSL_GUARDED_BY(mutex_) = 0;
  // The first error.
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Pipeline> NewPipeline(std::vector<Stage> stages,
                                      std::string sink_name, const Clock& clock,
                                      Order order) {
  return std::make_unique<ThreadedPipeline>(std::move(stages),
                                            std::move(sink_name), clock, order);
}

}  // namespace hearth::pipeline
