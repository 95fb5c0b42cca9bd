// The protocol:
//   1. Stage 0's threads claim numbers 0 .. n-1 from a counter and make the
//      items; the threads of stage s > 0 take items from queue s-1, which gives
//      them out in order of their number.
//   2. A thread works on its item alone, then puts it into queue s under the
//      item's number. A number waits for room only while numbers before it are
//      still in the queue or upstream; the thread with the next number never
//      waits. So no widths and capacities can deadlock.
//   3. The caller's thread takes from the last queue, in order, and calls the
//      sink; an item is destroyed after its sink.
//   4. The first error (of a stage, the sink, or a requested stop) is kept;
//      then all queues are closed, which wakes every thread. A thread that
//      finds its queue closed, or no number left, ends.
//   5. Run joins all threads, then destroys the queues with the items left in
//      them, then returns the first error.
// Threads block only in queues.
#include "engine/pipeline/pipeline.h"

#include <atomic>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/pipeline/ordered_queue.h"

namespace hearth::pipeline {
namespace {

using ItemQueue = OrderedQueue<std::unique_ptr<Item>>;

// Accumulates one stage's times; written by its threads, read by anyone.
class StageClock {
 public:
  StageClock(std::string name, int threads) {
    stats_.name = std::move(name);
    stats_.threads = threads;
  }

  void Add(double StageStats::*kind, double seconds) {
    absl::MutexLock lock(&mutex_);
    stats_.*kind += seconds;
  }
  void CountItem() {
    absl::MutexLock lock(&mutex_);
    ++stats_.items;
  }
  StageStats Get() const {
    absl::MutexLock lock(&mutex_);
    return stats_;
  }

 private:
  mutable absl::Mutex mutex_;
  StageStats stats_ ABSL_GUARDED_BY(mutex_);
};

class PipelineImpl final : public Pipeline {
 public:
  PipelineImpl(std::vector<Stage> stages, std::string sink_name,
               const Clock& clock)
      : stages_(std::move(stages)), clock_(clock) {
    for (const Stage& stage : stages_) {
      queues_.push_back(std::make_unique<ItemQueue>(stage.queue_capacity));
      clocks_.push_back(std::make_unique<StageClock>(stage.name, stage.width));
    }
    clocks_.push_back(std::make_unique<StageClock>(std::move(sink_name), 1));
  }

  absl::Status Run(int64_t num_items,
                   const std::function<std::unique_ptr<Item>(int64_t)>& make,
                   const std::function<absl::Status(Item&)>& sink,
                   std::stop_token stop) override {
    {
      const std::stop_callback on_stop(
          stop, [this] { Fail(absl::CancelledError("stopped on request")); });
      std::vector<std::jthread> threads;
      for (size_t s = 0; s < stages_.size(); ++s) {
        for (int t = 0; t < stages_[s].width; ++t) {
          threads.emplace_back([this, s, t, num_items, &make] {
            RunStage(s, t, num_items, make);
          });
        }
      }
      RunSink(num_items, sink);
    }
    CloseQueues();
    for (const auto& queue : queues_) queue->Clear();
    absl::MutexLock lock(&mutex_);
    return status_;
  }

  std::vector<StageStats> Stats() const override {
    std::vector<StageStats> result;
    for (size_t s = 0; s < clocks_.size(); ++s) {
      result.push_back(clocks_[s]->Get());
      if (s < queues_.size()) result[s].queue_length = queues_[s]->size();
    }
    return result;
  }

 private:
  using Numbered = std::pair<int64_t, std::unique_ptr<Item>>;

  // Runs `action` and adds its duration to one of stage `s`'s times.
  template <typename Action>
  auto Timed(size_t s, double StageStats::*kind, Action action) {
    const double start = clock_.SteadySeconds();
    auto result = action();
    clocks_[s]->Add(kind, clock_.SteadySeconds() - start);
    return result;
  }

  // The next item for stage `s`; nullopt when there is no more.
  std::optional<Numbered> Next(
      size_t s, int64_t num_items,
      const std::function<std::unique_ptr<Item>(int64_t)>& make) {
    if (s > 0) {
      return Timed(s, &StageStats::starved_seconds,
                   [&] { return queues_[s - 1]->Pop(); });
    }
    const int64_t number = next_number_.fetch_add(1);
    if (number >= num_items || failed_) return std::nullopt;
    return Numbered(number, make(number));
  }

  void RunStage(size_t s, int thread, int64_t num_items,
                const std::function<std::unique_ptr<Item>(int64_t)>& make) {
    while (std::optional<Numbered> item = Next(s, num_items, make)) {
      const absl::Status status = Timed(s, &StageStats::busy_seconds, [&] {
        return stages_[s].work(thread, *item->second);
      });
      if (!status.ok()) return Fail(status);
      clocks_[s]->CountItem();
      const bool accepted = Timed(s, &StageStats::blocked_seconds, [&] {
        return queues_[s]->Push(item->first, std::move(item->second));
      });
      if (!accepted) return;
    }
  }

  void RunSink(int64_t num_items,
               const std::function<absl::Status(Item&)>& sink) {
    const size_t s = stages_.size();
    for (int64_t number = 0; number < num_items; ++number) {
      std::optional<Numbered> item = Next(s, num_items, nullptr);
      if (!item.has_value()) return;
      const absl::Status status = Timed(s, &StageStats::busy_seconds,
                                        [&] { return sink(*item->second); });
      if (!status.ok()) return Fail(status);
      clocks_[s]->CountItem();
    }
    // All items are through: wake the threads that wait for more.
    CloseQueues();
  }

  void Fail(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      absl::MutexLock lock(&mutex_);
      status_.Update(status);
    }
    failed_ = true;
    CloseQueues();
  }

  void CloseQueues() {
    for (const auto& queue : queues_) queue->Close();
  }

  const std::vector<Stage> stages_;
  const Clock& clock_;
  std::vector<std::unique_ptr<ItemQueue>> queues_;
  std::vector<std::unique_ptr<StageClock>> clocks_;
  std::atomic<int64_t> next_number_ = 0;
  std::atomic<bool> failed_ = false;
  absl::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Pipeline> NewPipeline(std::vector<Stage> stages,
                                      std::string sink_name,
                                      const Clock& clock) {
  return std::make_unique<PipelineImpl>(std::move(stages), std::move(sink_name),
                                        clock);
}

}  // namespace hearth::pipeline
