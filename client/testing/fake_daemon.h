#ifndef HEARTH_CLIENT_TESTING_FAKE_DAEMON_H_
#define HEARTH_CLIENT_TESTING_FAKE_DAEMON_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "hearth/v1/datasets.pb.h"
#include "hearth/v1/jobs.pb.h"
#include "hearth/v1/plans.pb.h"

namespace hearth::client {

/// A stand-in for hearthd with scripted answers, on a loopback socket. gRPC is
/// included by the .cc alone. Thread-safe, except Start() and Stop().
class FakeDaemon {
 public:
  FakeDaemon();
  ~FakeDaemon();
  FakeDaemon(const FakeDaemon&) = delete;
  FakeDaemon& operator=(const FakeDaemon&) = delete;

  /// "127.0.0.1:PORT"; Stop() and Start() keep the port.
  const std::string& address() const;

  /// Breaks all connections, as the death of a daemon does.
  void Stop();
  void Start();

  /// Adds `job` with `events`, which get numbers from 1. A watch of the job
  /// breaks with UNAVAILABLE after each number in `breaks`, once each.
  void AddJob(const v1::Job& job, std::vector<v1::JobEvent> events,
              std::vector<uint64_t> breaks = {});
  void AddDataset(const v1::Dataset& dataset);
  void AddUpload(const v1::Upload& upload);
  void AddPlan(const v1::Plan& plan);
  /// Sets the behaviour of SubmitJob: `on_submit` gets a job with its id and
  /// spec, and returns the answer's status. By default jobs succeed at once.
  void OnSubmit(std::function<absl::Status(v1::Job*)> on_submit);
  /// Loses the answers of the next `count` submissions, which are accepted.
  void LoseAnswers(int count);
  /// Sets the function that is called with a job's id when a watch has sent all
  /// events of a job that has not ended, and waits.
  void OnWaitingWatch(std::function<void(const std::string&)> on_waiting);

  /// Requests so far: submissions, their "traceparent" (empty = none), first
  /// numbers of watches, ids of cancelled jobs, resumptions.
  std::vector<v1::SubmitJobRequest> submissions() const;
  std::vector<std::string> trace_parents() const;
  std::vector<uint64_t> watches() const;
  std::vector<std::string> cancelled() const;
  std::vector<v1::ResumeJobRequest> resumptions() const;

 private:
  class Services;

  const std::unique_ptr<Services> services_;
};

/// Events for AddJob.
v1::JobEvent StateEvent(v1::JobState state);
v1::JobEvent LogEvent(const std::string& text);

}  // namespace hearth::client

#endif  // HEARTH_CLIENT_TESTING_FAKE_DAEMON_H_
