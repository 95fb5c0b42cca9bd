#ifndef HEARTH_SERVER_CLUSTER_RANK_CALL_H_
#define HEARTH_SERVER_CLUSTER_RANK_CALL_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/clock.h"
#include "hearth/v1/jobs.pb.h"
#include "hearth/v1/peers.grpc.pb.h"
#include "hearth/v1/peers.pb.h"
#include "server/cluster/cluster.h"

namespace hearth::server {

/// The leader's call of one rank (Peers.Run), from its start to its end, with a
/// thread that takes what the rank says. Thread-safe.
class RankCall {
 public:
  enum class Phase { kAsked, kAccepted, kLoaded, kEnded };

  /// Begins the call. `clock` outlives it.
  RankCall(std::shared_ptr<grpc::Channel> channel, const v1::RankStart& start,
           const Clock& clock);
  /// Ends the call.
  ~RankCall();
  RankCall(const RankCall&) = delete;
  RankCall& operator=(const RankCall&) = delete;

  const std::string& member() const { return member_; }
  /// RankStart.deleted_jobs.
  const std::vector<std::string>& told_deleted() const { return deleted_jobs_; }

  /// Sends a message, once the start is sent; errors show in status().
  void Send(const v1::LeaderMessage& message) ABSL_LOCKS_EXCLUDED(send_mutex_);
  /// Sends a sign of life, unless another message is on its way.
  void SendBeat() ABSL_LOCKS_EXCLUDED(send_mutex_);
  /// Gives the call up if the rank has been silent for `silence`.
  void CheckSilence(absl::Duration silence) ABSL_LOCKS_EXCLUDED(mutex_);

  Phase phase() const ABSL_LOCKS_EXCLUDED(mutex_);
  /// OK while the call goes on, and if the rank has ended its work well.
  /// Otherwise why not, with the member's name: of the cause WaitCause::kPeer
  /// where it may go away.
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mutex_);
  /// Whether status() is the end of the connection, rather than what the rank
  /// has said.
  bool is_lost() const ABSL_LOCKS_EXCLUDED(mutex_);
  /// Its report; absent unless it has ended well.
  std::optional<v1::MachineReport> report() const ABSL_LOCKS_EXCLUDED(mutex_);
  v1::MachineState state() const ABSL_LOCKS_EXCLUDED(mutex_);
  /// Beat.boot_id; empty before it has accepted.
  std::string boot_id() const ABSL_LOCKS_EXCLUDED(mutex_);

  /// Tells the rank that the attempt is over, and ends the call, after
  /// `patience` by force.
  void End(const std::string& reason, absl::Duration patience)
      ABSL_LOCKS_EXCLUDED(mutex_, send_mutex_);

 private:
  void Listen(const v1::RankStart& start);
  void Note(const v1::RankMessage& message)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock& clock_;
  const std::string member_;
  const std::vector<std::string> deleted_jobs_;
  const std::unique_ptr<v1::Peers::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::LeaderMessage, v1::RankMessage>>
      stream_;
  absl::Mutex send_mutex_;
  bool may_send_ ABSL_GUARDED_BY(send_mutex_) = false;
  mutable absl::Mutex mutex_;
  absl::CondVar changed_ ABSL_GUARDED_BY(mutex_);
  Phase phase_ ABSL_GUARDED_BY(mutex_) = Phase::kAsked;
  double heard_ ABSL_GUARDED_BY(mutex_);
  bool is_silent_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_over_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_lost_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::optional<v1::MachineReport> report_ ABSL_GUARDED_BY(mutex_);
  v1::MachineState state_ ABSL_GUARDED_BY(mutex_);
  std::string boot_id_ ABSL_GUARDED_BY(mutex_);
  std::thread listener_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_CLUSTER_RANK_CALL_H_
