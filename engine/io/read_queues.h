#ifndef HEARTH_ENGINE_IO_READ_QUEUES_H_
#define HEARTH_ENGINE_IO_READ_QUEUES_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/clock.h"
#include "engine/io/read_queue.h"
#include "engine/io/read_statistics.h"
#include "engine/io/uring.h"

namespace hearth::io {

/// The means by which queues read.
enum class ReadQueueKind {
  // io_uring, or threads where the kernel forbids it; threads also for a queue
  // that the system has no memory or descriptors for a ring for.
  kAutomatic,
  kIoUring,
  kThreads,
};

struct ReadQueuesOptions {
  ReadQueueKind kind = ReadQueueKind::kAutomatic;
  /// Times reads and waits; outlives the queues.
  const Clock* clock = &Clock::Real();
  RingMaker new_ring = NewKernelRing;
};

/// The deepest queue there is.
inline constexpr size_t kMaxReadDepth = 4096;

/// The smallest ring that is made in place of a larger one: smaller ones take
/// as many pages.
inline constexpr size_t kLeastRingEntries = 32;

/// The daemon's queues, kept warm from one job to the next. Thread-safe. Must
/// outlive all queues taken.
class ReadQueues {
 public:
  /// Gives the queue back.
  struct GiveBack {
    ReadQueues* owner = nullptr;
    void operator()(ReadQueue* queue) const;
  };
  using Handle = std::unique_ptr<ReadQueue, GiveBack>;

  /// UNIMPLEMENTED or PERMISSION_DENIED if io_uring is asked for and cannot be
  /// had.
  static absl::StatusOr<std::unique_ptr<ReadQueues>> Create(
      const ReadQueuesOptions& options = {});

  virtual ~ReadQueues() = default;

  /// A queue of `depth`, warm if there is one, with nothing in flight and
  /// nothing registered. Who takes it waits for all it submitted and ends its
  /// registrations before giving it back. INVALID_ARGUMENT for a depth of 0 or
  /// above kMaxReadDepth; RESOURCE_EXHAUSTED if the system has no memory,
  /// descriptors or threads for another.
  ///
  /// Where there is no memory for a ring as deep (RLIMIT_MEMLOCK), warm queues
  /// go first. Then the ring is halved, down to kLeastRingEntries; then, unless
  /// kIoUring was asked for, threads read. The queue is as deep in any case:
  /// reads that are too many at once wait in it. Such a queue is not kept warm.
  virtual absl::StatusOr<Handle> Take(size_t depth) = 0;

  /// "io_uring" or "threads".
  virtual absl::string_view kind() const = 0;

  /// The last queue of ReadStatistics::reduced_queues, for people: how many
  /// reads are with the kernel at once, of how many, and why; empty if there
  /// was none.
  virtual std::string reduction() const = 0;

  /// Statistics of all queues taken so far.
  virtual ReadStatistics statistics() const = 0;

 private:
  virtual void Return(std::unique_ptr<ReadQueue> queue) = 0;
};

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_READ_QUEUES_H_
