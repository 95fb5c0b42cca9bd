#include "server/cluster/rank_session.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/base/status.h"
#include "server/cluster/rank_run.h"

namespace hearth::server {

namespace {

v1::RankEnded EndedOf(const absl::StatusOr<v1::MachineReport>& report) {
  v1::RankEnded ended;
  ended.set_code(static_cast<int>(report.status().code()));
  ended.set_message(std::string(report.status().message()));
  ended.set_may_wait(WaitCauseOf(report.status()) != WaitCause::kNone);
  if (report.ok()) *ended.mutable_report() = *report;
  return ended;
}

}  // namespace

RankSession::RankSession(const v1::RankStart& start, const ClusterTimes& times,
                         const Clock& clock,
                         std::function<bool(const v1::RankMessage&)> send,
                         std::function<void()> hang_up,
                         RankBoard::GiveUpFunction give_up)
    : start_(start),
      times_(times),
      clock_(clock),
      board_(start.rank().nonce(), std::move(give_up)),
      send_(std::move(send)),
      hang_up_(std::move(hang_up)),
      heard_(clock.SteadySeconds()),
      keep_alive_([this](std::stop_token stop) { KeepAlive(stop); }) {}

RankSession::~RankSession() { Close(); }

void RankSession::Close() {
  keep_alive_.request_stop();
  {
    absl::MutexLock lock(&mutex_);
    changed_.SignalAll();
  }
  absl::MutexLock lock(&send_mutex_);
  send_ = nullptr;
  hang_up_ = nullptr;
}

void RankSession::Send(const v1::RankMessage& message) {
  absl::MutexLock lock(&send_mutex_);
  if (send_ && !send_(message)) {
    send_ = nullptr;
    if (hang_up_) hang_up_();
  }
}

// Sends signs of life, and hangs up on a leader that sends none.
void RankSession::KeepAlive(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    v1::RankMessage message;
    bool is_silent = false;
    {
      absl::MutexLock lock(&mutex_);
      *message.mutable_beat() = beat_;
      is_silent = clock_.SteadySeconds() - heard_ >
                  absl::ToDoubleSeconds(times_.silence);
    }
    if (is_silent) {
      SetOver(WaitForPeerError(
          absl::StrCat(start_.rank().leader(), ", which leads, is silent")));
      absl::MutexLock lock(&send_mutex_);
      if (hang_up_) hang_up_();
      return;
    }
    Send(message);
    const absl::Time next = absl::Now() + times_.beat;
    absl::MutexLock lock(&mutex_);
    while (!stop.stop_requested() &&
           !changed_.WaitWithDeadline(&mutex_, next)) {
    }
  }
}

void RankSession::SetOver(const absl::Status& why) {
  absl::MutexLock lock(&mutex_);
  if (over_.ok()) over_ = why;
  changed_.SignalAll();
}

bool RankSession::has_ended() const {
  absl::MutexLock lock(&mutex_);
  return has_ended_;
}

void RankSession::SetProgress(const v1::Progress& progress) {
  absl::MutexLock lock(&mutex_);
  *beat_.mutable_progress() = progress;
}

void RankSession::Take(const v1::LeaderMessage& message) {
  if (message.has_turn()) board_.Take(message.turn());
  absl::MutexLock lock(&mutex_);
  heard_ = clock_.SteadySeconds();
  absl::Status status;
  switch (message.message_case()) {
    case v1::LeaderMessage::kCheckpoint:
      status = Store(message.checkpoint());
      break;
    case v1::LeaderMessage::kGo:
      may_go_ = true;
      break;
    case v1::LeaderMessage::kEnd:
      status = absl::CancelledError(
          message.end().reason().empty()
              ? std::string("the job has ended")
              : absl::StrCat("the attempt is over: ", message.end().reason()));
      break;
    default:
      break;
  }
  if (over_.ok()) over_ = status;
  changed_.SignalAll();
}

absl::Status RankSession::Store(const v1::CheckpointPiece& piece) {
  if (!checkpoint_.has_value()) {
    return absl::InvalidArgumentError("a checkpoint that was not asked for");
  }
  HEARTH_ASSIGN_OR_RETURN(is_loaded_, checkpoint_->Take(piece));
  return absl::OkStatus();
}

absl::Status RankSession::Await(bool RankSession::*condition,
                                const std::stop_token& stop) {
  absl::MutexLock lock(&mutex_);
  while (over_.ok() && !(this->*condition)) {
    if (stop.stop_requested()) return absl::CancelledError("stopped");
    changed_.WaitWithTimeout(&mutex_, absl::Milliseconds(50));
  }
  return over_;
}

absl::StatusOr<v1::MachineReport> RankSession::FollowToTheEnd(
    Cluster& cluster, io::FileSystem& files, const std::string& folder,
    const std::stop_token& stop, const TrainRank& train) {
  HEARTH_RETURN_IF_ERROR(files.CreateDirectory(folder));
  {
    absl::MutexLock lock(&mutex_);
    checkpoint_.emplace(files, folder);
  }
  v1::RankMessage message;
  message.mutable_accepted()->set_boot_id(cluster.boot_id());
  Send(message);
  HEARTH_RETURN_IF_ERROR(Await(&RankSession::is_loaded_, stop));
  message.mutable_loaded();
  Send(message);
  HEARTH_RETURN_IF_ERROR(Await(&RankSession::may_go_, stop));
  RankResult result = RunRank(
      cluster, start_.rank(),
      {start_.addresses().begin(), start_.addresses().end()}, stop,
      [this](const LinkGroup::Traffic& traffic) {
        absl::MutexLock lock(&mutex_);
        beat_.set_bytes_sent(traffic.bytes_sent);
        beat_.set_bytes_received(traffic.bytes_received);
        beat_.set_wait_seconds(traffic.wait_seconds);
        return over_;
      },
      [&](LinkGroup& group, const std::vector<std::string>& members,
          std::stop_token attempt) {
        return train(group, board_, members, std::move(attempt));
      });
  if (!result.has_left) return std::move(result.report);
  {
    absl::MutexLock lock(&mutex_);
    has_left_ = !stop.stop_requested();
  }
  return absl::CancelledError("has stopped");
}

absl::StatusOr<v1::MachineReport> RankSession::Follow(Cluster& cluster,
                                                      io::FileSystem& files,
                                                      const std::string& folder,
                                                      std::stop_token stop,
                                                      const TrainRank& train) {
  auto report = FollowToTheEnd(cluster, files, folder, stop, train);
  v1::RankMessage message;
  *message.mutable_ended() = EndedOf(report);
  {
    absl::MutexLock lock(&mutex_);
    message.mutable_ended()->set_left_with_others(has_left_);
  }
  Send(message);
  absl::MutexLock lock(&mutex_);
  has_ended_ = true;
  // The call's thread writes no file of the job any more.
  checkpoint_.reset();
  changed_.SignalAll();
  return report;
}

void RankSessions::Add(std::shared_ptr<RankSession> session) {
  absl::MutexLock lock(&mutex_);
  sessions_[session->start().rank().nonce()] = std::move(session);
}

void RankSessions::Remove(const RankSession& session) {
  absl::MutexLock lock(&mutex_);
  sessions_.erase(session.start().rank().nonce());
}

void RankSessions::EndAll(const std::string& leader, const std::string& job,
                          const absl::Status& why) const {
  absl::MutexLock lock(&mutex_);
  for (const auto& [nonce, session] : sessions_) {
    const v1::RankSpec& rank = session->start().rank();
    if (rank.leader() == leader && rank.job_id() == job) session->SetOver(why);
  }
}

void RankSessions::GiveUp(const std::string& nonce) const {
  absl::MutexLock lock(&mutex_);
  const auto found = sessions_.find(nonce);
  if (found == sessions_.end()) return;
  found->second->SetOver(
      WaitForPeerError("came too late to share passes with others"));
}

std::shared_ptr<RankSession> RankSessions::Find(
    const v1::RankSpec& spec) const {
  absl::MutexLock lock(&mutex_);
  const auto found = sessions_.find(spec.nonce());
  if (found == sessions_.end()) return nullptr;
  const v1::RankSpec& own = found->second->start().rank();
  const bool is_same = own.leader() == spec.leader() &&
                       own.job_id() == spec.job_id() &&
                       own.attempt() == spec.attempt();
  return is_same ? found->second : nullptr;
}

}  // namespace hearth::server
