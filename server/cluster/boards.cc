#include "server/cluster/boards.h"

namespace hearth::server {

namespace {

using Kind = job::PassTurn::Kind;

v1::PassTurn::Kind ToProto(Kind kind) {
  switch (kind) {
    case Kind::kTraining:
      return v1::PassTurn::TRAINING;
    case Kind::kValidation:
      return v1::PassTurn::VALIDATION;
    case Kind::kTest:
      return v1::PassTurn::TEST;
    case Kind::kNone:
      break;
  }
  return v1::PassTurn::NONE;
}

Kind FromProto(v1::PassTurn::Kind kind) {
  switch (kind) {
    case v1::PassTurn::TRAINING:
      return Kind::kTraining;
    case v1::PassTurn::VALIDATION:
      return Kind::kValidation;
    case v1::PassTurn::TEST:
      return Kind::kTest;
    default:
      return Kind::kNone;
  }
}

}  // namespace

void LeaderBoard::Post(const job::PassTurn& turn) {
  v1::LeaderMessage message;
  v1::PassTurn& proto = *message.mutable_turn();
  proto.set_number(turn.number);
  proto.set_kind(ToProto(turn.kind));
  proto.set_epoch(turn.epoch);
  for (const job::PassTurn::Job& job : turn.jobs) {
    v1::PassTurnJob& one = *proto.add_jobs();
    one.set_nonce(job.attempt);
    one.set_first_epoch_key(job.first_epoch_key);
  }
  proto.mutable_in_pass()->Assign(turn.in_pass.begin(), turn.in_pass.end());
  send_(message);
}

void RankBoard::Take(const v1::PassTurn& turn) {
  job::PassTurn taken = {
      .number = turn.number(),
      .kind = FromProto(turn.kind()),
      .epoch = turn.epoch(),
      .in_pass = {turn.in_pass().begin(), turn.in_pass().end()}};
  for (const v1::PassTurnJob& job : turn.jobs()) {
    taken.jobs.push_back(
        {.attempt = job.nonce(), .first_epoch_key = job.first_epoch_key()});
  }
  absl::MutexLock lock(&mutex_);
  if (listener_) {
    listener_(taken);
  } else {
    unheard_.push_back(std::move(taken));
  }
}

void RankBoard::Listen(std::function<void(const job::PassTurn&)> listener) {
  absl::MutexLock lock(&mutex_);
  listener_ = std::move(listener);
  if (!listener_) return;
  for (const job::PassTurn& turn : unheard_) listener_(turn);
  unheard_.clear();
}

}  // namespace hearth::server
