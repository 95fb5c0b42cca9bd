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
#include "hearth/v1/plans.pb.h"
#include "hearth/v1/sweeps.pb.h"

namespace hearth::client {

/// Where the daemon is and how patient to be with it.
struct ClientOptions {
  /// "host:port" or "unix:path" of the daemon; DefaultServer() where none is
  /// given.
  std::string server = "127.0.0.1:7600";
  /// PEM: the authorities that vouch for the daemon, with which the connection
  /// is encrypted, and the client's own certificate and key; empty = none.
  std::string ca = {};
  std::string certificate = {};
  std::string key = {};
  /// Sent with each call, but only encrypted or to this machine; empty = none.
  std::string token = {};
  /// Trace that the calls are a part of, sent with each (see
  /// engine/base/trace_parent.h); empty = a new trace.
  std::string trace_parent = {};
  /// Deadline of one call, watches apart.
  absl::Duration call_timeout = absl::Seconds(60);
  /// Tries of a call for which the daemon could not be reached.
  int call_attempts = 3;
  /// Pause after the first failed attempt; doubles up to 20 times as much.
  absl::Duration first_backoff = absl::Milliseconds(100);
  /// A broken watch is given up after pausing that long without an event.
  absl::Duration watch_patience = absl::Minutes(2);
  /// Called when the daemon has not answered a call or a watch for
  /// `silence_limit`, with the time so far, and with zero when it answers
  /// again. On any thread, but never while an EventSink is called. Null =
  /// nobody.
  std::function<void(absl::Duration)> on_silence = nullptr;
  absl::Duration silence_limit = absl::Seconds(10);
};

/// Called with each event of a watched job, in order. False ends the watch.
using EventSink = std::function<bool(const v1::JobEvent&)>;
/// The same for a sweep.
using SweepEventSink = std::function<bool(const v1::SweepEvent&)>;

/// Takes a model that is downloaded. Errors end the download.
class ModelSink {
 public:
  virtual ~ModelSink() = default;

  /// The offset and the digest with which to go on; asked before each stream.
  virtual v1::DownloadModelRequest Next() = 0;

  /// Takes a message of a stream, in order.
  virtual absl::Status Take(const v1::ModelChunk& chunk) = 0;

  /// Forgets what was taken: the model is another one now.
  virtual absl::Status StartOver() = 0;
};

/// Gives the bytes of an upload. Errors end the upload.
class UploadSource {
 public:
  virtual ~UploadSource() = default;

  /// At most `limit` bytes from `offset` on, and at least one but at the end;
  /// the files are taken as one row.
  virtual absl::StatusOr<std::string> Read(uint64_t offset, size_t limit) = 0;

  /// The bytes before `offset` are sent.
  virtual void OnSent(uint64_t offset) = 0;
};

/// The daemon's services as plain calls: no gRPC in this header. Errors are
/// the daemon's own; those for which IsUnreachable() holds come from the
/// connection. Thread-safe.
class Client {
 public:
  virtual ~Client() = default;

  /// Puts a job into the queue. A connection that breaks is no danger: the
  /// call is repeated with the same request id and gives one job. `priority`:
  /// see v1::SubmitJobRequest.
  absl::StatusOr<v1::Job> SubmitJob(const v1::JobSpec& spec, int priority);
  /// The same with a request id of the caller's own, by which the same job is
  /// found again.
  virtual absl::StatusOr<v1::Job> SubmitJob(const v1::JobSpec& spec,
                                            int priority,
                                            const std::string& request_id) = 0;
  virtual absl::StatusOr<v1::Job> GetJob(const std::string& id) = 0;
  /// All jobs in one of `states`, newest first; no states = all jobs.
  virtual absl::StatusOr<std::vector<v1::Job>> ListJobs(
      const std::vector<v1::JobState>& states) = 0;
  /// The newest of them, as many as the daemon tells at once.
  virtual absl::StatusOr<std::vector<v1::Job>> ListNewestJobs(
      const std::vector<v1::JobState>& states) = 0;
  virtual absl::StatusOr<v1::Job> CancelJob(const std::string& id) = 0;
  /// Queues a job that failed or was cancelled once more, with `spec`. Repeated
  /// as SubmitJob is.
  virtual absl::StatusOr<v1::Job> ResumeJob(const std::string& id,
                                            const v1::JobSpec& spec) = 0;
  virtual absl::Status DeleteJob(const std::string& id) = 0;
  /// Hands the model of a job to `sink`. While the daemon is away the download
  /// is resumed where it broke, for ClientOptions::watch_patience. CANCELLED
  /// when `stop` ended it.
  virtual absl::Status DownloadModel(const std::string& id, ModelSink& sink,
                                     std::stop_token stop) = 0;

  /// Hands the job's events from number `from_sequence` (0 and 1 = the first)
  /// to `sink`, each once, in order, until the job has ended. While the daemon
  /// is away (it restarts, say) the watch is resumed after the last event
  /// seen, for ClientOptions::watch_patience. OK also when `sink` ended the
  /// watch; CANCELLED when `stop` did.
  virtual absl::Status WatchJob(const std::string& id, uint64_t from_sequence,
                                const EventSink& sink,
                                std::stop_token stop) = 0;

  /// The job's newest `count` events (1 to 1000), progress apart, in order.
  virtual absl::StatusOr<std::vector<v1::JobEvent>> TailJob(
      const std::string& id, uint32_t count) = 0;

  /// Begins a sweep. Repeated as SubmitJob is.
  virtual absl::StatusOr<v1::Sweep> SubmitSweep(const v1::SweepSpec& spec,
                                                int priority) = 0;
  virtual absl::StatusOr<v1::Sweep> GetSweep(const std::string& id) = 0;
  /// Newest first, without trials.
  virtual absl::StatusOr<std::vector<v1::Sweep>> ListSweeps() = 0;
  virtual absl::StatusOr<v1::Sweep> PauseSweep(const std::string& id) = 0;
  virtual absl::StatusOr<v1::Sweep> ResumeSweep(const std::string& id) = 0;
  virtual absl::StatusOr<v1::Sweep> StopSweep(const std::string& id) = 0;
  virtual absl::StatusOr<v1::Sweep> StopTrial(const std::string& id,
                                              uint32_t trial) = 0;
  /// `number`: see v1::AddTrialRequest; not 0, for the call may be repeated.
  virtual absl::StatusOr<v1::Sweep> AddTrial(
      const v1::AddTrialRequest& request) = 0;
  virtual absl::Status DeleteSweep(const std::string& id) = 0;
  /// As WatchJob.
  virtual absl::Status WatchSweep(const std::string& id, uint64_t from_sequence,
                                  const SweepEventSink& sink,
                                  std::stop_token stop) = 0;

  /// By name.
  virtual absl::StatusOr<std::vector<v1::Dataset>> ListDatasets() = 0;
  virtual absl::StatusOr<v1::Dataset> GetDataset(const std::string& name) = 0;
  virtual absl::Status DeleteDataset(const std::string& name) = 0;
  /// Sends the files that `request` announces, through breaks as DownloadModel;
  /// goes on with the same upload of before. The upload, which is whole, for an
  /// import job.
  virtual absl::StatusOr<v1::Upload> Upload(
      const v1::BeginUploadRequest& request, UploadSource& source,
      std::stop_token stop) = 0;
  /// By the names of their datasets.
  virtual absl::StatusOr<std::vector<v1::Upload>> ListUploads() = 0;
  virtual absl::Status DeleteUpload(const std::string& id) = 0;

  /// The last used first.
  virtual absl::StatusOr<std::vector<v1::Plan>> ListPlans() = 0;
  virtual absl::StatusOr<v1::Plan> GetPlan(const std::string& name) = 0;
  virtual absl::Status DeletePlan(const std::string& name) = 0;

  virtual absl::StatusOr<v1::Status> GetStatus() = 0;
  /// Has the daemon take no new jobs, or take them again.
  virtual absl::StatusOr<v1::Status> SetDraining(bool draining) = 0;
  /// Makes a token; called once, for its secret is told once.
  virtual absl::StatusOr<v1::NewToken> CreateToken(
      const v1::CreateTokenRequest& request) = 0;
  /// By name.
  virtual absl::StatusOr<std::vector<v1::Token>> ListTokens() = 0;
  virtual absl::StatusOr<v1::Token> RevokeToken(const std::string& name) = 0;
  /// Copies the jobs to the new folder `destination` on the daemon's machine,
  /// however long it takes.
  virtual absl::StatusOr<v1::BackupReport> BackUp(
      const std::string& destination) = 0;
};

/// A client over gRPC. Connects at the first call.
std::unique_ptr<Client> NewClient(const ClientOptions& options);

/// Whether a call failed because the daemon could not be reached.
bool IsUnreachable(const absl::Status& status);

/// `message` as the status of a call that could not reach the daemon.
absl::Status UnreachableError(const std::string& message);

/// Whether a job in `state` has ended.
bool HasEnded(v1::JobState state);

/// Whether a sweep in `state` has.
bool HasEnded(v1::SweepState state);

}  // namespace hearth::client

#endif  // HEARTH_CLIENT_HEARTH_CLIENT_H_
