#include "engine/pipeline/team.h"

#include <algorithm>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

// Run hands out the numbers of the parts under the lock, to its own thread and
// to those that it wakes, and waits until none is being worked on. A thread
// that wakes late finds no part left.

namespace hearth::pipeline {
namespace {

using Work = absl::FunctionRef<void(int64_t part)>;

class ThreadTeam final : public Team {
 public:
  ~ThreadTeam() override {
    {
      absl::MutexLock lock(&mutex_);
      ended_ = true;
      changed_.SignalAll();
    }
    for (std::thread& thread : threads_) thread.join();
  }

  absl::Status Start(int others) {
    try {
      for (int i = 0; i < others; ++i) {
        threads_.emplace_back([this] { WorkUntilEnded(); });
      }
    } catch (const std::system_error& error) {
      return absl::ResourceExhaustedError(
          absl::StrCat("starting a thread of a team: ", error.what()));
    }
    return absl::OkStatus();
  }

  void Run(int64_t parts, Work work) override ABSL_LOCKS_EXCLUDED(mutex_) {
    if (threads_.empty() || parts <= 1) {
      for (int64_t part = 0; part < parts; ++part) work(part);
      return;
    }
    absl::MutexLock lock(&mutex_);
    work_ = &work;
    parts_ = parts;
    next_ = 0;
    changed_.SignalAll();
    while (next_ < parts_) DoNext();
    while (being_done_ > 0) changed_.Wait(&mutex_);
    work_ = nullptr;
  }

 private:
  void WorkUntilEnded() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    while (!ended_) {
      if (next_ < parts_) {
        DoNext();
        if (next_ == parts_ && being_done_ == 0) changed_.SignalAll();
      } else {
        changed_.Wait(&mutex_);
      }
    }
  }

  // Does the next part, unlocked meanwhile. REQUIRES: there is one.
  void DoNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const int64_t part = next_++;
    const Work work = *work_;
    ++being_done_;
    mutex_.Unlock();
    work(part);
    mutex_.Lock();
    --being_done_;
  }

  std::vector<std::thread> threads_;
  absl::Mutex mutex_;
  // Signalled when there is work, when all of it is done, and at the end.
  absl::CondVar changed_;
  const Work* work_ ABSL_GUARDED_BY(mutex_) = nullptr;
  int64_t parts_ ABSL_GUARDED_BY(mutex_) = 0;
  // The part to be done next, and parts being worked on.
  int64_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t being_done_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Team>> Team::Create(int threads) {
  auto team = std::make_unique<ThreadTeam>();
  const absl::Status status = team->Start(threads - 1);
  if (!status.ok()) return status;
  return team;
}

void Team::RunRanges(
    int64_t count, int64_t part,
    absl::FunctionRef<void(int64_t first, int64_t count)> work) {
  Run((count + part - 1) / part, [&](int64_t number) {
    const int64_t first = number * part;
    work(first, std::min(part, count - first));
  });
}

}  // namespace hearth::pipeline
