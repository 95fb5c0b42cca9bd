#ifndef HEARTH_ENGINE_PIPELINE_PIPELINE_H_
#define HEARTH_ENGINE_PIPELINE_PIPELINE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/clock.h"

namespace hearth::pipeline {

/// Present activity of a stage's thread.
enum class Activity {
  kAbsent,   // Not started, or ended.
  kStarved,  // Waits for an item.
  kBusy,     // Works on an item.
  kBlocked,  // Waits for a place in the queue after its stage.
};

/// Measures where the time of one stage's threads goes. Every moment between a
/// thread's first and last switch counts for exactly one activity; totals
/// include the activity in progress. Thread-safe.
class StageMeter {
 public:
  /// Seconds over all threads, and items finished.
  struct Totals {
    double starved_seconds = 0;
    double busy_seconds = 0;
    double blocked_seconds = 0;
    int64_t items = 0;
  };

  StageMeter(int threads, const Clock& clock)
      : clock_(clock), threads_(threads) {}

  /// Notes that `thread` begins `activity` now.
  void Switch(int thread, Activity activity) ABSL_LOCKS_EXCLUDED(mutex_);

  void CountItem() ABSL_LOCKS_EXCLUDED(mutex_);

  Totals Read() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Thread {
    Activity activity = Activity::kAbsent;
    double since = 0;
  };
  using Seconds = std::array<double, 4>;  // By Activity.

  const Clock& clock_;
  mutable absl::Mutex mutex_;
  std::vector<Thread> threads_ ABSL_GUARDED_BY(mutex_);
  Seconds seconds_ ABSL_GUARDED_BY(mutex_) = {};
  int64_t items_ ABSL_GUARDED_BY(mutex_) = 0;
};

/// Item that flows through a pipeline; stages downcast it to the type they
/// know.
class Item {
 public:
  virtual ~Item() = default;
};

/// Input and output of one thread of a stage with a `loop`, which may hold
/// several items at a time.
class StagePorts {
 public:
  virtual ~StagePorts() = default;

  /// Number of the thread within its stage: 0 .. width - 1.
  virtual int thread() const = 0;

  /// Blocks until the next item in order is there. Null after the last item,
  /// and when the run ends early.
  virtual std::unique_ptr<Item> Take() = 0;

  /// The next item, if it is there already; null otherwise.
  virtual std::unique_ptr<Item> TryTake() = 0;

  /// Whether Put would return at once. REQUIRES: an item was taken and not put.
  virtual bool CanPut() const = 0;

  /// Blocks until the queue after the stage has a place, then hands the item
  /// on. False, destroying the item, when the run ends early. REQUIRES: the
  /// item is the oldest that the thread holds.
  virtual bool Put(std::unique_ptr<Item> item) = 0;
};

/// One stage: `work` is applied to every item.
struct Stage {
  std::string name;
  /// Number of threads. Each call gets its thread's number, 0 .. width - 1, by
  /// which the thread finds scratch memory of its own.
  int width = 1;
  /// Most items that wait in the queue after this stage.
  int queue_capacity = 2;
  /// Called from the stage's threads, for different items at the same time.
  std::function<absl::Status(int thread, Item& item)> work = nullptr;
  /// Set instead of `work` for a stage whose threads work on several items at a
  /// time. Takes items until there are no more, hands each on in the order in
  /// which it took them, and returns; returning OK earlier is INTERNAL.
  /// REQUIRES: not the first stage.
  std::function<absl::Status(StagePorts& ports)> loop = nullptr;
  /// Called once, from any thread, when an error or a stop ends the run early.
  /// Makes work that waits for anything but the queues return soon. May be
  /// null.
  std::function<void()> interrupt = nullptr;
};

/// The order in which items leave the stages and reach the sink.
enum class Order {
  /// In order of their number, whatever the widths.
  kByNumber,
  /// In the order in which they are done, so that a slow item holds up no
  /// other.
  kAsDone,
};

/// Statistics of a stage: its time, summed over its threads, and its items.
struct StageStats {
  std::string name;
  int threads = 0;
  double busy_seconds = 0;
  double starved_seconds = 0;
  double blocked_seconds = 0;
  int64_t items = 0;
  /// Items in the queue after the stage now.
  int64_t queue_length = 0;
};

/// Runs items 0 .. n-1 through stages joined by bounded queues and hands them
/// to a sink on the calling thread. Generic: knows no graph.
///
/// With Order::kByNumber items enter and leave every stage's queue in order of
/// their number, whatever the widths, so the sink sees the same sequence with 1
/// and with 4 threads. The first stage makes items by `make(number)`.
///
/// The first error of a stage or the sink stops everything and is returned; a
/// requested stop returns CANCELLED. Either way all threads have ended and all
/// items that the sink did not take are destroyed when Run returns.
class Pipeline {
 public:
  /// Takes over an item that has passed all stages.
  using Sink = std::function<absl::Status(std::unique_ptr<Item> item)>;

  virtual ~Pipeline() = default;

  /// Blocks until the sink has taken all items. `make`, called by the threads
  /// of the first stage, may wait for its item, for as long as the stage's
  /// interrupt lets it; null = there are no items from this number on, and the
  /// run ends after those before (not with Order::kAsDone). Call once.
  virtual absl::Status Run(
      int64_t num_items,
      const std::function<std::unique_ptr<Item>(int64_t number)>& make,
      const Sink& sink, std::stop_token stop) = 0;

  /// One entry per stage, and a last one, named `sink_name`, for the sink.
  /// Thread-safe, also during Run.
  virtual std::vector<StageStats> Stats() const = 0;
};

/// `stages` must not be empty. `clock` must outlive the pipeline.
std::unique_ptr<Pipeline> NewPipeline(std::vector<Stage> stages,
                                      std::string sink_name, const Clock& clock,
                                      Order order = Order::kByNumber);

}  // namespace hearth::pipeline

#endif  // HEARTH_ENGINE_PIPELINE_PIPELINE_H_
