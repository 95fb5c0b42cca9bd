#ifndef HEARTH_SERVER_SERVICES_TRANSFERS_H_
#define HEARTH_SERVER_SERVICES_TRANSFERS_H_

#include <grpcpp/grpcpp.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "hearth/v1/datasets.pb.h"
#include "hearth/v1/jobs.pb.h"
#include "server/jobs/event_hub.h"
#include "server/jobs/model_files.h"
#include "server/services/call_guard.h"
#include "server/services/places.h"

namespace hearth::server {

class UploadStaging;

/// Downloads and uploads: a thread that reads and writes for all of them, a
/// second thread for waits on the disk that may take long, and their number,
/// which is limited since each holds one or two files and a chunk in memory.
/// Thread-safe.
class Transfers {
 public:
  /// Transfers at a time: in all, and of one caller.
  static constexpr int kMost = 128;
  static constexpr int kMostOfCaller = 16;

  /// `patience`: time that a client may neither send nor take a message; then
  /// its transfer ends, and frees its place.
  explicit Transfers(absl::Duration patience)
      : patience_(patience), slow_thread_([this] { RunSlowly(); }) {}
  ~Transfers();
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  using Place = Places::Place;

  /// Takes a place for a transfer of `caller`. UNAVAILABLE if all places are
  /// taken, RESOURCE_EXHAUSTED if the caller has kMostOfCaller.
  absl::StatusOr<std::unique_ptr<Place>> Enter(const std::string& caller) {
    return places_.Enter(caller);
  }

  /// Hub of the thread that reads and writes.
  EventHub& hub() { return hub_; }

  /// Wakes `transfer` once its client's patience() is over, unless it is called
  /// again before; returns that time, on the steady clock.
  double BePatientWith(const Watcher& transfer);
  /// Whether the steady clock has reached `seconds`.
  static bool HasPassed(double seconds) {
    return Clock::Real().SteadySeconds() >= seconds;
  }
  /// For error messages.
  absl::Duration patience() const { return patience_; }

  /// Calls `work` on the second thread, after earlier work.
  void DoSlowly(std::function<void()> work) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void RunSlowly() ABSL_LOCKS_EXCLUDED(mutex_);
  // Next work; blocks for it. Null: the object is being destroyed.
  std::function<void()> NextSlowWork() ABSL_LOCKS_EXCLUDED(mutex_);

  const absl::Duration patience_;
  Places places_{"downloads and uploads", kMost, kMostOfCaller};
  absl::Mutex mutex_;
  std::deque<std::function<void()>> slow_work_ ABSL_GUARDED_BY(mutex_);
  // Signalled when there is slow work, or none will come.
  absl::CondVar slow_;
  bool exiting_ ABSL_GUARDED_BY(mutex_) = false;
  // Destroyed before the members above: its streams hold places.
  EventHub hub_;
  std::jthread slow_thread_;
};

/// Starts the stream of a model to a client, which owns itself. `transfers`,
/// whose thread reads its files, and `guard` must outlive the gRPC server.
/// `open` opens the model, once the caller is known to be allowed to have it.
grpc::ServerWriteReactor<v1::ModelChunk>* StartModelStream(
    Transfers& transfers, const CallGuard& guard,
    grpc::CallbackServerContext& context,
    const v1::DownloadModelRequest& request,
    std::function<absl::StatusOr<std::unique_ptr<ModelReader>>()> open);

/// Starts the stream of an upload's bytes from a client, which owns itself.
/// `transfers`, whose thread writes its files, `guard` and `uploads` must
/// outlive the gRPC server. `response` gets the state of the upload at the end
/// of the stream.
grpc::ServerReadReactor<v1::UploadChunk>* StartUploadStream(
    Transfers& transfers, const CallGuard& guard, UploadStaging& uploads,
    grpc::CallbackServerContext& context, v1::Upload* response);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_SERVICES_TRANSFERS_H_
