#ifndef HEARTH_SERVER_JOBS_SCHEDULER_FIXTURE_H_
#define HEARTH_SERVER_JOBS_SCHEDULER_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/job/memory/memory_ledger.h"
#include "engine/job/run/shared_pass.h"
#include "engine/plan/plan_store.h"
#include "hearth/v1/jobs.pb.h"
#include "server/jobs/job_events.h"
#include "server/jobs/scheduler.h"
#include "server/storage/job_store.h"

/// A scheduler over a store of its own, with jobs that do what a test says.

namespace hearth::server {

inline v1::JobSpec Spec(const std::string& dataset) {
  v1::JobSpec spec;
  spec.mutable_train()->mutable_data()->set_dataset(dataset);
  return spec;
}

// Runs jobs as the test says: each job, once RUNNING, waits until the test
// gives it a result or it is asked to stop.
class FakeRunner final : public JobRunner {
 public:
  using Result = std::function<absl::StatusOr<v1::JobReport>()>;

  absl::StatusOr<v1::JobReport> Run(const v1::Job& job, JobEvents& events,
                                    std::stop_token stop) override {
    {
      absl::MutexLock lock(&mutex_);
      started_.push_back(job.id());
      stopped_.erase(job.id());
      changed_.SignalAll();
    }
    events.OnRunning();
    if (!job.sweep().empty()) {
      v1::EpochReport epoch;
      epoch.set_epoch(1);
      const absl::Status reported = events.OnEpoch(epoch);
      if (!reported.ok()) return reported;
    }
    // A deaf job ignores the request to stop.
    const bool deaf = job.spec().train().data().dataset() == "deaf";
    const std::stop_callback wake(stop, [this, &job, deaf] {
      absl::MutexLock lock(&mutex_);
      if (!deaf) stopped_.insert(job.id());
      changed_.SignalAll();
    });
    absl::MutexLock lock(&mutex_);
    while (!results_.contains(job.id()) && !stopped_.contains(job.id())) {
      changed_.Wait(&mutex_);
    }
    const auto found = results_.find(job.id());
    if (found == results_.end()) return absl::CancelledError("stopped");
    return found->second();
  }

  void Discard(const std::string& id) override {
    absl::MutexLock lock(&mutex_);
    discarded_.push_back(id);
  }

  // Blocks until the test completes it or it is asked to stop.
  absl::StatusOr<v1::PrepareReport> PrepareAhead(
      const v1::Job& job, std::stop_token stop) override {
    const std::stop_callback wake(stop, [this] {
      absl::MutexLock lock(&mutex_);
      changed_.SignalAll();
    });
    absl::MutexLock lock(&mutex_);
    prepared_.push_back(job.id());
    changed_.SignalAll();
    while (!complete_.contains(job.id()) && !stop.stop_requested()) {
      changed_.Wait(&mutex_);
    }
    if (!complete_.contains(job.id())) {
      ++plans_given_up_;
      changed_.SignalAll();
      return absl::CancelledError("stopped");
    }
    v1::PrepareReport report;
    report.mutable_preparation()->set_plan("diskgnn-a-b");
    return report;
  }

  void CompletePlan(const std::string& id) {
    absl::MutexLock lock(&mutex_);
    complete_.insert(id);
    changed_.SignalAll();
  }

  void AwaitPlansGivenUp(int plans) {
    absl::MutexLock lock(&mutex_);
    while (plans_given_up_ < plans) changed_.Wait(&mutex_);
  }

  // Waits until plans of `jobs` jobs were made ahead; returns the jobs.
  std::vector<std::string> AwaitPrepared(size_t jobs) {
    absl::MutexLock lock(&mutex_);
    while (prepared_.size() < jobs) changed_.Wait(&mutex_);
    return prepared_;
  }

  void Finish(const std::string& id, Result result) {
    absl::MutexLock lock(&mutex_);
    results_[id] = std::move(result);
    changed_.SignalAll();
  }
  void Succeed(const std::string& id) {
    Finish(id, [] { return v1::JobReport(); });
  }

  void AwaitStarted(size_t jobs) {
    absl::MutexLock lock(&mutex_);
    while (started_.size() < jobs) changed_.Wait(&mutex_);
  }

  std::vector<std::string> discarded() {
    absl::MutexLock lock(&mutex_);
    return discarded_;
  }

  std::vector<std::string> started() {
    absl::MutexLock lock(&mutex_);
    return started_;
  }

 private:
  absl::Mutex mutex_;
  absl::CondVar changed_;
  std::vector<std::string> started_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> discarded_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> prepared_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> complete_ ABSL_GUARDED_BY(mutex_);
  int plans_given_up_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<std::string> stopped_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Result> results_ ABSL_GUARDED_BY(mutex_);
};

class SchedulerTest : public testing::Test {
 protected:
  SchedulerTest() {
    for (const char* suffix : {"", "-wal", "-shm"}) {
      std::remove(absl::StrCat(path_, suffix).c_str());
    }
    auto store = JobStore::Open(io::FileSystem::Posix(), path_, Clock::Real(),
                                [this](const auto&) {
                                  absl::MutexLock lock(&mutex_);
                                  ++events_;
                                  new_event_.SignalAll();
                                });
    EXPECT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  void Start(int max_running_jobs) {
    scheduler_.emplace(
        *store_, runner_, memory_, plans_, Clock::Real(),
        SchedulerOptions{.max_running_jobs = max_running_jobs,
                         .max_short_jobs = 1,
                         .shared_passes = shared_passes_.get(),
                         .client_waits = client_waits_,
                         .wait = {.first_pause_seconds = pause_seconds_,
                                  .limit_seconds = wait_limit_seconds_},
                         .retry_interval = absl::Milliseconds(1)});
    scheduler_->Load(*store_->Unended());
    scheduler_->Start();
  }

  std::string Submit(const std::string& dataset = "a") {
    return Submit(Spec(dataset));
  }
  std::string Submit(const v1::JobSpec& spec, int priority = 0) {
    const v1::Job job = *store_->Submit("", spec, priority);
    scheduler_->Enqueue(job);
    return job.id();
  }

  v1::JobState StateOf(const std::string& id) {
    return store_->Get(id)->state();
  }

  // Blocks until the job is in `state`.
  void AwaitState(const std::string& id, v1::JobState state) {
    while (true) {
      int seen;
      {
        absl::MutexLock lock(&mutex_);
        seen = events_;
      }
      if (StateOf(id) == state) return;
      absl::MutexLock lock(&mutex_);
      while (events_ == seen) new_event_.Wait(&mutex_);
    }
  }

  const std::string path_ = absl::StrCat(
      testing::TempDir(), "/scheduler_",
      testing::UnitTest::GetInstance()->current_test_info()->name(), ".db");
  absl::Mutex mutex_;
  absl::CondVar new_event_;
  int events_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<JobStore> store_;
  static constexpr int kMembers = 2;
  std::unique_ptr<job::SharedPassGroups> shared_passes_;
  FakeRunner runner_;
  job::MemoryLedger memory_{
      100, {.available = [] { return 0; }, .used = [] { return 0; }}};
  const io::ScratchDirectory scratch_;
  plan::PlanStore plans_{
      io::FileSystem::Posix(),
      Clock::Real(),
      {.folder = scratch_.Path("plans"), .space_bytes = 100'000}};
  std::function<bool(const std::string& id)> client_waits_;
  double pause_seconds_ = 0.001;
  double wait_limit_seconds_ = 3600;
  std::optional<Scheduler> scheduler_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_JOBS_SCHEDULER_FIXTURE_H_
