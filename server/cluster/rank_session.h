#ifndef HEARTH_SERVER_CLUSTER_RANK_SESSION_H_
#define HEARTH_SERVER_CLUSTER_RANK_SESSION_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "hearth/v1/peers.pb.h"
#include "server/cluster/boards.h"
#include "server/cluster/checkpoint_copy.h"
#include "server/cluster/cluster.h"

/// A rank's side of an attempt that another daemon leads: between the leader's
/// call (Peers.Run) and the rank's job.

namespace hearth::server {

/// One attempt, until both the call and the job are done with it. The call's
/// thread gives the leader's messages (Take); the job's thread calls Follow. A
/// thread of the session sends a sign of life each second, and notices a silent
/// leader. Thread-safe.
class RankSession {
 public:
  /// `send` writes a message to the leader; false = the call is broken.
  /// `hang_up` ends the call. Both are called by one thread at a time, and not
  /// any more after Close. `give_up` ends another attempt that this rank waits
  /// for in vain.
  RankSession(const v1::RankStart& start, const ClusterTimes& times,
              const Clock& clock,
              std::function<bool(const v1::RankMessage&)> send,
              std::function<void()> hang_up, RankBoard::GiveUpFunction give_up);
  ~RankSession();
  RankSession(const RankSession&) = delete;
  RankSession& operator=(const RankSession&) = delete;

  const v1::RankStart& start() const { return start_; }

  /// Takes a message of the leader.
  void Take(const v1::LeaderMessage& message) ABSL_LOCKS_EXCLUDED(mutex_);
  /// The attempt is over, as far as the leader is concerned; the first reason
  /// counts.
  void SetOver(const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_);
  /// Whether the job has said its last word.
  bool has_ended() const ABSL_LOCKS_EXCLUDED(mutex_);
  /// Neither `send` nor `hang_up` is called any more.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_, send_mutex_);

  /// Takes the job's part: says that it has a place, takes the checkpoint into
  /// `folder`, connects and trains (RunRank), and tells the leader how it has
  /// ended. CANCELLED once the attempt is over or `stop` is requested.
  absl::StatusOr<v1::MachineReport> Follow(Cluster& cluster,
                                           io::FileSystem& files,
                                           const std::string& folder,
                                           std::stop_token stop,
                                           const TrainRank& train);

  /// How far the job is.
  void SetProgress(const v1::Progress& progress) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::StatusOr<v1::MachineReport> FollowToTheEnd(Cluster& cluster,
                                                   io::FileSystem& files,
                                                   const std::string& folder,
                                                   const std::stop_token& stop,
                                                   const TrainRank& train);
  absl::Status Await(bool RankSession::*condition, const std::stop_token& stop)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Store(const v1::CheckpointPiece& piece)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Send(const v1::RankMessage& message) ABSL_LOCKS_EXCLUDED(send_mutex_);
  void KeepAlive(const std::stop_token& stop);

  const v1::RankStart start_;
  const ClusterTimes times_;
  const Clock& clock_;
  RankBoard board_;
  absl::Mutex send_mutex_;
  std::function<bool(const v1::RankMessage&)> send_
      ABSL_GUARDED_BY(send_mutex_);
  std::function<void()> hang_up_ ABSL_GUARDED_BY(send_mutex_);
  mutable absl::Mutex mutex_;
  absl::CondVar changed_ ABSL_GUARDED_BY(mutex_);
  double heard_ ABSL_GUARDED_BY(mutex_);
  // Absent before the job has a place, and once it has ended.
  std::optional<CheckpointReceiver> checkpoint_ ABSL_GUARDED_BY(mutex_);
  bool is_loaded_ ABSL_GUARDED_BY(mutex_) = false;
  bool may_go_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_ended_ ABSL_GUARDED_BY(mutex_) = false;
  // Whether it has left with the others, by no wish of its own.
  bool has_left_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status over_ ABSL_GUARDED_BY(mutex_);
  v1::Beat beat_ ABSL_GUARDED_BY(mutex_);
  std::jthread keep_alive_;
};

/// The sessions of attempts whose jobs have not begun, or run. Thread-safe.
class RankSessions {
 public:
  void Add(std::shared_ptr<RankSession> session) ABSL_LOCKS_EXCLUDED(mutex_);
  void Remove(const RankSession& session) ABSL_LOCKS_EXCLUDED(mutex_);
  /// The attempts at `job` of the member `leader` are over.
  void EndAll(const std::string& leader, const std::string& job,
              const absl::Status& why) const ABSL_LOCKS_EXCLUDED(mutex_);
  /// The attempt of this nonce, if it has a session, has come too late to share
  /// passes with others.
  void GiveUp(const std::string& nonce) const ABSL_LOCKS_EXCLUDED(mutex_);
  /// The session of the attempt that `spec` is of; null if it is over.
  std::shared_ptr<RankSession> Find(const v1::RankSpec& spec) const
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  mutable absl::Mutex mutex_;
  // By the attempt's nonce.
  std::map<std::string, std::shared_ptr<RankSession>> sessions_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_CLUSTER_RANK_SESSION_H_
