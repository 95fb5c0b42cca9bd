#ifndef HEARTH_ENGINE_MODEL_TEAM_H_
#define HEARTH_ENGINE_MODEL_TEAM_H_

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace hearth::model {

/// Threads that do their parts of something at the same time and sleep in
/// between. A member is always the same thread, so that what LibTorch and
/// OpenMP keep for a thread is kept from one time to the next. Single-owner.
class Team {
 public:
  /// Threads that are told their numbers, 0 .. size - 1. RESOURCE_EXHAUSTED if
  /// the system has no more threads.
  static absl::StatusOr<std::unique_ptr<Team>> Start(int size);

  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  /// Ends and joins all threads.
  ~Team();

  /// Calls `part` with each member's number, on that member's thread, and
  /// returns once all have returned: the error of the lowest number, if any.
  /// REQUIRES: no exception leaves it.
  absl::Status Run(absl::FunctionRef<absl::Status(int member)> part)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Part = absl::FunctionRef<absl::Status(int member)>;

  explicit Team(int size) : statuses_(size) {}

  void RunMember(int member) ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns the work that follows `round`; null when the team ends.
  const Part* AwaitRound(uint64_t round) ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Mutex mutex_;
  absl::CondVar begun_;
  absl::CondVar ended_;
  // Counts the calls of Run.
  uint64_t round_ ABSL_GUARDED_BY(mutex_) = 0;
  // The current round's; null between rounds.
  const Part* part_ ABSL_GUARDED_BY(mutex_) = nullptr;
  // Members that are not done with it.
  size_t busy_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<absl::Status> statuses_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_TEAM_H_
