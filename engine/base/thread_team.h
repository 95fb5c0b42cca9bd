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

/// Threads that do one piece of work together and sleep in between: that of its
/// owner, which is member 0, and size() - 1 others. Single-owner. What a member
/// wrote is seen once the call that it worked in has returned.
/// REQUIRES: no exception leaves the work.
class ThreadTeam {
 public:
  /// With so many threads, the owner's included, at least one.
  /// RESOURCE_EXHAUSTED if the system gives no thread.
  static absl::StatusOr<std::unique_ptr<ThreadTeam>> Create(int threads);

  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;
  /// Ends and joins the other threads.
  ~ThreadTeam();

  int size() const { return static_cast<int>(others_.size()) + 1; }

  /// Calls work(0) .. work(parts - 1), each once, by any of the threads and in
  /// any order. Returns when all have returned.
  void Run(int64_t parts, absl::FunctionRef<void(int64_t part)> work)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// The same of parts that may fail: the error of the lowest one, if any, once
  /// all have returned.
  absl::Status TryRun(int64_t parts,
                      absl::FunctionRef<absl::Status(int64_t part)> work)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Run for 0 .. count - 1 in parts of up to `part` numbers: calls
  /// work(first, count of them).
  void RunRanges(int64_t count, int64_t part,
                 absl::FunctionRef<void(int64_t first, int64_t count)> work);

  /// Calls work(0) .. work(size() - 1) at the same time, each on the thread of
  /// that member, so that what libraries keep for a thread is kept from one
  /// call to the next. Returns when all have returned: the error of the lowest
  /// number, if any.
  absl::Status RunMembers(absl::FunctionRef<absl::Status(int member)> work)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Round;

  ThreadTeam() = default;

  absl::Status Start(int others);
  void WorkUntilEnded(int member) ABSL_LOCKS_EXCLUDED(mutex_);
  // Does parts of the round until none is left for this member; whoever ends
  // the last one signals that.
  void DoParts(int member) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunRound(Round& round) ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Mutex mutex_;
  // Signalled when a round begins, when its last part is done, and at the end.
  absl::CondVar changed_;
  // The round that is worked on; null between rounds.
  Round* round_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> others_;
};

}  // namespace hearth

#endif  // HEARTH_ENGINE_BASE_THREAD_TEAM_H_
