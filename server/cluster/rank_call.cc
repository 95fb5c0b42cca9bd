#include "server/cluster/rank_call.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/base/status.h"

namespace hearth::server {

namespace {

// Whether a rank that ends with this code may do better at another attempt: it
// has lost others, or was stopped. ABORTED and RESOURCE_EXHAUSTED are answers
// of a daemon that knows a newer attempt, or has too many jobs.
bool MayPass(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::ABORTED:
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
    case grpc::StatusCode::UNKNOWN:
    case grpc::StatusCode::INTERNAL:
      return true;
    default:
      return false;
  }
}

}  // namespace

RankCall::RankCall(std::shared_ptr<grpc::Channel> channel,
                   const v1::RankStart& start, const Clock& clock)
    : clock_(clock),
      member_(start.rank().ranks(static_cast<int>(start.rank().rank()))),
      deleted_jobs_(start.deleted_jobs().begin(), start.deleted_jobs().end()),
      stub_(v1::Peers::NewStub(std::move(channel))),
      heard_(clock.SteadySeconds()) {
  state_.set_member(member_);
  state_.set_phase("asked");
  listener_ = std::thread([this, start] { Listen(start); });
}

RankCall::~RankCall() {
  context_.TryCancel();
  listener_.join();
}

void RankCall::Listen(const v1::RankStart& start) {
  {
    absl::MutexLock lock(&send_mutex_);
    stream_ = stub_->Run(&context_);
    v1::LeaderMessage message;
    *message.mutable_start() = start;
    may_send_ = stream_->Write(message);
  }
  v1::RankMessage message;
  while (stream_->Read(&message)) {
    absl::MutexLock lock(&mutex_);
    Note(message);
    changed_.SignalAll();
  }
  {
    absl::MutexLock lock(&send_mutex_);
    may_send_ = false;
  }
  const grpc::Status status = stream_->Finish();
  absl::MutexLock lock(&mutex_);
  is_over_ = true;
  if (phase_ != Phase::kEnded) {
    phase_ = Phase::kEnded;
    is_lost_ = true;
    const std::string text =
        absl::StrCat(member(), ": ",
                     is_silent_    ? "is silent"
                     : status.ok() ? "has ended the attempt"
                                   : status.error_message());
    status_ =
        is_silent_ || status.ok() || MayPass(status.error_code())
            ? WaitForPeerError(text)
            : absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                           text);
    state_.set_phase("lost");
  }
  changed_.SignalAll();
}

void RankCall::Note(const v1::RankMessage& message) {
  heard_ = clock_.SteadySeconds();
  switch (message.message_case()) {
    case v1::RankMessage::kAccepted:
      phase_ = Phase::kAccepted;
      state_.set_phase("loading");
      boot_id_ = message.accepted().boot_id();
      break;
    case v1::RankMessage::kLoaded:
      phase_ = Phase::kLoaded;
      state_.set_phase("preparing");
      break;
    case v1::RankMessage::kBeat: {
      const v1::Beat& beat = message.beat();
      if (beat.has_progress()) {
        state_.set_phase(beat.progress().phase());
        state_.set_done(beat.progress().done());
        state_.set_total(beat.progress().total());
        state_.set_epoch(beat.progress().epoch());
      }
      state_.set_bytes_sent(beat.bytes_sent());
      state_.set_bytes_received(beat.bytes_received());
      state_.set_wait_seconds(beat.wait_seconds());
      break;
    }
    case v1::RankMessage::kEnded: {
      const v1::RankEnded& ended = message.ended();
      phase_ = Phase::kEnded;
      state_.set_phase("ended");
      if (ended.left_with_others()) break;
      if (ended.code() == 0) {
        report_ = ended.report();
        break;
      }
      const std::string text = absl::StrCat(member(), ": ", ended.message());
      const auto code = static_cast<absl::StatusCode>(ended.code());
      status_ = ended.may_wait() || code == absl::StatusCode::kCancelled
                    ? WaitForPeerError(text)
                    : absl::Status(code, text);
      break;
    }
    case v1::RankMessage::MESSAGE_NOT_SET:
      break;
  }
}

void RankCall::Send(const v1::LeaderMessage& message) {
  absl::MutexLock lock(&send_mutex_);
  if (may_send_) may_send_ = stream_->Write(message);
}

void RankCall::SendBeat() {
  if (!send_mutex_.TryLock()) return;
  v1::LeaderMessage message;
  message.mutable_beat();
  if (may_send_) may_send_ = stream_->Write(message);
  send_mutex_.Unlock();
}

void RankCall::CheckSilence(absl::Duration silence) {
  absl::MutexLock lock(&mutex_);
  if (is_over_ || phase_ == Phase::kEnded) return;
  if (clock_.SteadySeconds() - heard_ < absl::ToDoubleSeconds(silence)) return;
  is_silent_ = true;
  context_.TryCancel();
}

RankCall::Phase RankCall::phase() const {
  absl::MutexLock lock(&mutex_);
  return phase_;
}

absl::Status RankCall::status() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

bool RankCall::is_lost() const {
  absl::MutexLock lock(&mutex_);
  return is_lost_;
}

std::optional<v1::MachineReport> RankCall::report() const {
  absl::MutexLock lock(&mutex_);
  return report_;
}

v1::MachineState RankCall::state() const {
  absl::MutexLock lock(&mutex_);
  v1::MachineState state = state_;
  if (!is_over_) state.set_silent_seconds(clock_.SteadySeconds() - heard_);
  return state;
}

std::string RankCall::boot_id() const {
  absl::MutexLock lock(&mutex_);
  return boot_id_;
}

void RankCall::End(const std::string& reason, absl::Duration patience) {
  v1::LeaderMessage message;
  message.mutable_end()->set_reason(reason);
  Send(message);
  {
    absl::MutexLock lock(&send_mutex_);
    if (may_send_) stream_->WritesDone();
    may_send_ = false;
  }
  const absl::Time until = absl::Now() + patience;
  absl::MutexLock lock(&mutex_);
  while (!is_over_ && !changed_.WaitWithDeadline(&mutex_, until)) {
  }
  if (!is_over_) context_.TryCancel();
}

}  // namespace hearth::server
