#ifndef HEARTH_ENGINE_BASE_THREAD_TEAM_H_
#define HEARTH_ENGINE_BASE_THREAD_TEAM_H_

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace hearth {

/// A team of size() workers that do one piece of work together and sleep in
/// between: the owner's thread, which is worker 0, and size() - 1 threads of
/// the team. Single-owner. Writes of a worker are visible to the owner once the
/// call has returned. REQUIRES: no exception leaves the work.
class ThreadTeam {
 public:
  /// A team of `threads` workers, the owner's thread included; at least one.
  /// RESOURCE_EXHAUSTED if the system gives no thread.
  static absl::StatusOr<std::unique_ptr<ThreadTeam>> Create(int threads);

  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;
  /// Ends and joins the other threads.
  ~ThreadTeam();

  int size() const { return static_cast<int>(others_.size()) + 1; }

  /// Calls work(0) .. work(parts - 1), each once, on any worker and in any
  /// order. Returns when all calls have returned.
  void Run(int64_t parts, absl::FunctionRef<void(int64_t part)> work)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Run for parts that may fail. Returns the error of the lowest part, if any,
  /// when all calls have returned.
  absl::Status TryRun(int64_t parts,
                      absl::FunctionRef<absl::Status(int64_t part)> work)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Splits 0 .. count - 1 into ranges of at most `part` numbers and calls
  /// work(first, count) for each range, as Run does.
  void RunRanges(int64_t count, int64_t part,
                 absl::FunctionRef<void(int64_t first, int64_t count)> work);

  /// Calls work(0) .. work(size() - 1) at the same time, work(w) on worker w,
  /// so that thread-local state of libraries stays from one call to the next.
  /// Returns the error of the lowest worker, if any, when all calls have
  /// returned.
  absl::Status RunWorkers(absl::FunctionRef<absl::Status(int worker)> work)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Round;

  ThreadTeam() = default;

  absl::Status Start(int others);
  void WorkUntilEnded(int worker) ABSL_LOCKS_EXCLUDED(mutex_);
  // Does parts of the round until none is left for this worker. The worker that
  // ends the last part signals it.
  void DoParts(int worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunRound(Round& round) ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Mutex mutex_;
  // Signalled when a round begins, when its last part is done, and at the end.
  absl::CondVar changed_;
  // Current round; null between rounds.
  Round* round_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> others_;
};

}  // namespace hearth

#endif  // HEARTH_ENGINE_BASE_THREAD_TEAM_H_
