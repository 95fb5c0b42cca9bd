#ifndef HEARTH_SERVER_SWEEPS_SWEEP_JOBS_H_
#define HEARTH_SERVER_SWEEPS_SWEEP_JOBS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "hearth/v1/jobs.pb.h"
#include "hearth/v1/sweeps.pb.h"

/// What sweeps and their jobs tell each other: events for a sweep about the
/// ends of its jobs, and messages about a sweep's decisions for its jobs.

namespace hearth::server {

/// The replica of a trial, or the test of the best trial's replica, for which a
/// job works. Numbers count from 0.
struct JobOwner {
  std::string sweep;
  int64_t trial = 0;
  int64_t replica = 0;
  /// Whether the job tests a trained model.
  bool is_test = false;
};

/// The event that the job of a replica has ended.
v1::SweepEvent EndOfReplica(const v1::Job& job, const JobOwner& owner);

/// The event that a test job has ended.
v1::SweepEvent EndOfTest(const v1::Job& job, const JobOwner& owner);

/// A FAILED job that stands for a job `id` that is no longer in the store.
v1::Job JobThatIsGone(const std::string& id);

/// A message to jobs, or about the end of one.
struct JobMessage {
  enum class Kind { kRelease, kHold, kCancel, kHasEnded };
  Kind kind = Kind::kRelease;
  /// More than one job only for kRelease.
  std::vector<std::string> jobs;
};

/// Delivers messages one after another, on a thread of its own. Repeats a
/// delivery that failed, after a second or when the next message is sent,
/// unless the job is gone or its state refuses the message. Thread-safe.
class JobMessenger {
 public:
  using Delivery = std::function<absl::Status(const JobMessage& message)>;

  /// `deliver` is called on the messenger's thread, without locks.
  explicit JobMessenger(Delivery deliver) : deliver_(std::move(deliver)) {}
  ~JobMessenger() { Stop(); }
  JobMessenger(const JobMessenger&) = delete;
  JobMessenger& operator=(const JobMessenger&) = delete;

  /// Starts the thread. Call once; messages sent before are delivered then.
  void Start() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Stops the thread and waits for it; drops the messages that are left.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Sends a message. Jobs released one after another get one message: so they
  /// share their passes from the first one on.
  void Send(JobMessage::Kind kind, const std::string& job)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Work() ABSL_LOCKS_EXCLUDED(mutex_);

  const Delivery deliver_;
  absl::Mutex mutex_;
  // Signalled when there is a message, and when the thread is to stop.
  absl::CondVar changed_;
  // Messages without the one that is being delivered.
  std::deque<JobMessage> messages_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_SWEEPS_SWEEP_JOBS_H_
