#ifndef HEARTH_CLIENT_HEARTH_CLIENT_H_
#define HEARTH_CLIENT_HEARTH_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "hearth/v1/admin.pb.h"
#include "hearth/v1/datasets.pb.h"
#include "hearth/v1/jobs.pb.h"
#include "hearth/v1/peers.pb.h"
#include "hearth/v1/plans.pb.h"
#include "hearth/v1/sweeps.pb.h"

namespace hearth::client {

/// Address of the daemon, credentials, and patience.
struct ClientOptions {
  /// "host:port" or "unix:path"; DefaultServer() chooses where the user does
  /// not.
  std::string server = "127.0.0.1:7600";
  /// PEM texts: the authorities that vouch for the daemon (the connection is
  /// then encrypted), and the client's certificate and key. Empty = none.
  std::string ca = {};
  std::string certificate = {};
  std::string key = {};
  /// Name that the daemon's certificate must be for; empty = that in `server`.
  std::string tls_name = {};
  /// Token sent with each call, but only encrypted or to this machine; empty =
  /// none.
  std::string token = {};
  /// Trace that the calls belong to (engine/base/trace_parent.h); empty = a new
  /// trace.
  std::string trace_parent = {};
  /// Deadline of one call; watches have none.
  absl::Duration call_timeout = absl::Seconds(60);
  /// Attempts of a call while the daemon cannot be reached.
  int call_attempts = 3;
  /// Pause after the first failed attempt; doubled each time, at most 20-fold.
  absl::Duration first_backoff = absl::Milliseconds(100);
  /// Sum of pauses without an event after which a broken watch is given up.
  absl::Duration watch_patience = absl::Minutes(2);
  /// Called with the length of the silence when the daemon has not answered a
  /// call or a watch for `silence_limit`, and with zero when it answers again;
  /// on any thread, but never while an EventSink runs. Null = not called.
  std::function<void(absl::Duration)> on_silence = nullptr;
  absl::Duration silence_limit = absl::Seconds(10);
};

/// Called with each event of a watched job, in order; false ends the watch.
using EventSink = std::function<bool(const v1::JobEvent&)>;
/// Called with each event of a watched sweep, in order; false ends the watch.
using SweepEventSink = std::function<bool(const v1::SweepEvent&)>;

/// Receiver of a downloaded model. Its errors end the download.
class ModelSink {
 public:
  virtual ~ModelSink() = default;

  /// Offset and digest from which to go on; called before each stream.
  virtual v1::DownloadModelRequest Next() = 0;

  /// Takes the next message of a stream.
  virtual absl::Status Take(const v1::ModelChunk& chunk) = 0;

  /// Drops all data taken so far: the job has another model now.
  virtual absl::Status StartOver() = 0;
};

/// Source of an upload's bytes. Its errors end the upload.
class UploadSource {
 public:
  virtual ~UploadSource() = default;

  /// At most `limit` bytes from `offset` on, at least one unless at the end.
  /// Offsets count through all files, one after the other.
  virtual absl::StatusOr<std::string> Read(uint64_t offset, size_t limit) = 0;

  /// Called when the bytes before `offset` are sent.
  virtual void OnSent(uint64_t offset) = 0;
};

/// The daemon's services as plain calls, without gRPC. Errors are the daemon's,
/// except errors of the connection, for which IsUnreachable() holds.
/// Thread-safe.
class Client {
 public:
  virtual ~Client() = default;

  /// Puts a job into the queue. After a broken connection the call is repeated
  /// with the same request id, so that it makes one job. `priority`: see
  /// v1::SubmitJobRequest.
  absl::StatusOr<v1::Job> SubmitJob(const v1::JobSpec& spec, int priority);
  /// SubmitJob with the caller's own request id: a later call with the same id
  /// returns the same job.
  virtual absl::StatusOr<v1::Job> SubmitJob(const v1::JobSpec& spec,
                                            int priority,
                                            const std::string& request_id) = 0;
  virtual absl::StatusOr<v1::Job> GetJob(const std::string& id) = 0;
  /// All jobs in one of `states`, newest first; no states = any state.
  virtual absl::StatusOr<std::vector<v1::Job>> ListJobs(
      const std::vector<v1::JobState>& states) = 0;
  /// The newest of these jobs: one page of 200 at most.
  virtual absl::StatusOr<std::vector<v1::Job>> ListNewestJobs(
      const std::vector<v1::JobState>& states) = 0;
  virtual absl::StatusOr<v1::Job> CancelJob(const std::string& id) = 0;
  /// Queues a failed or cancelled job again, with `spec`. Repeated as
  /// SubmitJob.
  virtual absl::StatusOr<v1::Job> ResumeJob(const std::string& id,
                                            const v1::JobSpec& spec) = 0;
  /// Goes on with the job of a rank whose leader will not come back.
  /// Repeatable.
  virtual absl::StatusOr<v1::Job> AdoptJob(const std::string& id) = 0;
  virtual absl::Status DeleteJob(const std::string& id) = 0;
  /// Hands the model of a job to `sink`. A broken download goes on where it
  /// broke, within ClientOptions::watch_patience. CANCELLED when `stop` ended
  /// it.
  virtual absl::Status DownloadModel(const std::string& id, ModelSink& sink,
                                     std::stop_token stop) = 0;

  /// Hands the job's events from number `from_sequence` (0 and 1 = the first)
  /// on to `sink`, each once, in order, until the job has ended. A broken watch
  /// (the daemon restarts, say) goes on after the last event seen, within
  /// ClientOptions::watch_patience. OK also when `sink` ended the watch;
  /// CANCELLED when `stop` did.
  virtual absl::Status WatchJob(const std::string& id, uint64_t from_sequence,
                                const EventSink& sink,
                                std::stop_token stop) = 0;

  /// The newest `count` events (1 to 1000) of a job except progress, in order.
  virtual absl::StatusOr<std::vector<v1::JobEvent>> TailJob(
      const std::string& id, uint32_t count) = 0;

  /// Begins a sweep. Repeated as SubmitJob.
  virtual absl::StatusOr<v1::Sweep> SubmitSweep(const v1::SweepSpec& spec,
                                                int priority) = 0;
  virtual absl::StatusOr<v1::Sweep> GetSweep(const std::string& id) = 0;
  /// All sweeps, newest first, without their trials.
  virtual absl::StatusOr<std::vector<v1::Sweep>> ListSweeps() = 0;
  virtual absl::StatusOr<v1::Sweep> PauseSweep(const std::string& id) = 0;
  virtual absl::StatusOr<v1::Sweep> ResumeSweep(const std::string& id) = 0;
  virtual absl::StatusOr<v1::Sweep> StopSweep(const std::string& id) = 0;
  virtual absl::StatusOr<v1::Sweep> StopTrial(const std::string& id,
                                              uint32_t trial) = 0;
  /// Adds a trial. `number`: see v1::AddTrialRequest; not 0, since the call may
  /// be repeated.
  virtual absl::StatusOr<v1::Sweep> AddTrial(
      const v1::AddTrialRequest& request) = 0;
  virtual absl::Status DeleteSweep(const std::string& id) = 0;
  /// Watches a sweep as WatchJob watches a job.
  virtual absl::Status WatchSweep(const std::string& id, uint64_t from_sequence,
                                  const SweepEventSink& sink,
                                  std::stop_token stop) = 0;

  /// All datasets, by name.
  virtual absl::StatusOr<std::vector<v1::Dataset>> ListDatasets() = 0;
  virtual absl::StatusOr<v1::Dataset> GetDataset(const std::string& name) = 0;
  virtual absl::Status DeleteDataset(const std::string& name) = 0;
  /// Sends the files that `request` announces and returns the whole upload, for
  /// an import job. Goes on with an earlier upload of the same files, and after
  /// breaks as DownloadModel.
  virtual absl::StatusOr<v1::Upload> Upload(
      const v1::BeginUploadRequest& request, UploadSource& source,
      std::stop_token stop) = 0;
  /// All uploads, by the names of their datasets.
  virtual absl::StatusOr<std::vector<v1::Upload>> ListUploads() = 0;
  virtual absl::Status DeleteUpload(const std::string& id) = 0;

  /// All plans, the last used first.
  virtual absl::StatusOr<std::vector<v1::Plan>> ListPlans() = 0;
  virtual absl::StatusOr<v1::Plan> GetPlan(const std::string& name) = 0;
  virtual absl::Status DeletePlan(const std::string& name) = 0;

  virtual absl::StatusOr<v1::Status> GetStatus() = 0;
  /// The members of the daemon's cluster.
  virtual absl::StatusOr<v1::ListMembersResponse> ListMembers() = 0;
  /// Tells the first member of a cluster of another one, whose certificate the
  /// connection shows (Peers.Enroll).
  virtual absl::StatusOr<v1::Enrolled> Enroll(
      const v1::EnrollRequest& request) = 0;
  /// Lets the daemon refuse new jobs, or take them again.
  virtual absl::StatusOr<v1::Status> SetDraining(bool draining) = 0;
  /// Makes a token. Not repeated: its secret is told once.
  virtual absl::StatusOr<v1::NewToken> CreateToken(
      const v1::CreateTokenRequest& request) = 0;
  /// All tokens, by name.
  virtual absl::StatusOr<std::vector<v1::Token>> ListTokens() = 0;
  virtual absl::StatusOr<v1::Token> RevokeToken(const std::string& name) = 0;
  /// Copies the jobs to the new folder `destination` on the daemon's machine.
  /// Without a deadline, and not repeated.
  virtual absl::StatusOr<v1::BackupReport> BackUp(
      const std::string& destination) = 0;
};

/// A client over gRPC. Connects at the first call.
std::unique_ptr<Client> NewClient(const ClientOptions& options);

/// Whether a call failed because the daemon could not be reached.
bool IsUnreachable(const absl::Status& status);

/// `message` as the status of a call that could not reach the daemon.
absl::Status UnreachableError(const std::string& message);

/// Whether a job or a sweep in `state` has ended.
bool HasEnded(v1::JobState state);
bool HasEnded(v1::SweepState state);

}  // namespace hearth::client

#endif  // HEARTH_CLIENT_HEARTH_CLIENT_H_
