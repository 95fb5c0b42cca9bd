#ifndef HEARTH_SERVER_CLUSTER_BOARDS_H_
#define HEARTH_SERVER_CLUSTER_BOARDS_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/job/interface/pass_board.h"
#include "hearth/v1/peers.pb.h"

/// The boards (job::PassBoard) of a job's leader and of its other ranks: turns
/// go with the leader's other messages (Peers.Run).

namespace hearth::server {

/// Posts by `send`, which outlives it.
class LeaderBoard final : public job::PassBoard {
 public:
  using Send = std::function<void(const v1::LeaderMessage&)>;

  LeaderBoard(std::string nonce, Send send)
      : nonce_(std::move(nonce)), send_(std::move(send)) {}

  const std::string& attempt() const override { return nonce_; }
  void Post(const job::PassTurn& turn) override;
  void Listen(std::function<void(const job::PassTurn&)> /*listener*/) override {
  }
  void GiveUp(const std::string& /*attempt*/) override {}

 private:
  const std::string nonce_;
  const Send send_;
};

/// Tells what the leader has posted (Take). Thread-safe.
class RankBoard final : public job::PassBoard {
 public:
  using GiveUpFunction = std::function<void(const std::string& attempt)>;

  RankBoard(std::string nonce, GiveUpFunction give_up)
      : nonce_(std::move(nonce)), give_up_(std::move(give_up)) {}

  /// Takes a turn of the leader's.
  void Take(const v1::PassTurn& turn) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string& attempt() const override { return nonce_; }
  void Post(const job::PassTurn& /*turn*/) override {}
  void Listen(std::function<void(const job::PassTurn&)> listener) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  void GiveUp(const std::string& attempt) override { give_up_(attempt); }

 private:
  const std::string nonce_;
  const GiveUpFunction give_up_;
  absl::Mutex mutex_;
  std::function<void(const job::PassTurn&)> listener_ ABSL_GUARDED_BY(mutex_);
  // Turns that nobody has heard yet.
  std::vector<job::PassTurn> unheard_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_CLUSTER_BOARDS_H_
