#ifndef HEARTH_SERVER_SERVICES_INCOMING_STREAM_H_
#define HEARTH_SERVER_SERVICES_INCOMING_STREAM_H_

#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/base/status.h"
#include "server/access/access_control.h"
#include "server/access/endpoints.h"
#include "server/services/call_guard.h"
#include "server/services/transfers.h"

namespace hearth::server {

/// What a client sends for the thing that the first message's `id` names,
/// pumped by the hub of transfers:
///
///   1. a message is read: gRPC's threads only note its arrival and wake the
///      hub;
///   2. with the first message the caller is checked (Enter): only the owner
///   may
///      send;
///   3. each message is taken (Take) before the next one is read: the stream
///      holds one message, and a client that sends faster waits.
///
/// The stream lives until both gRPC and the hub have released it.
template <typename Message>
class IncomingStream
    : public grpc::ServerReadReactor<Message>,
      public Watcher,
      public std::enable_shared_from_this<IncomingStream<Message>> {
 public:
  /// `advice` follows errors after which the client may try again; all other
  /// arguments outlive the stream.
  IncomingStream(Transfers& transfers, const CallGuard& guard,
                 grpc::CallbackServerContext& context,
                 google::protobuf::Message* response, std::string advice)
      : transfers_(transfers),
        guard_(guard),
        context_(context),
        response_(response),
        advice_(std::move(advice)) {}

  void Start() {
    self_ = this->shared_from_this();
    // Tells the client at once that the daemon has taken the call.
    this->StartSendInitialMetadata();
    transfers_.hub().Add("", self_);
    ReadNext();
  }

  bool Pump(bool stopping) final {
    if (works_slowly_) return true;
    const absl::StatusOr<bool> goes_on = Step(stopping);
    if (goes_on.ok() && *goes_on) return true;
    place_.reset();
    this->Finish(is_refused_ ? refusal_ : ToGrpcStatus(goes_on.status()));
    return false;
  }

  void OnReadDone(bool ok) final {
    (ok ? has_message_ : has_ended_) = true;
    transfers_.hub().Wake(this);
  }

  void OnCancel() final {
    is_broken_ = true;
    transfers_.hub().Wake(this);
  }

  void OnDone() final {
    const std::shared_ptr<IncomingStream> last_share = std::move(self_);
  }

 protected:
  /// False: all is done, or the client was refused.
  virtual absl::StatusOr<bool> Step(bool stopping) {
    if (is_broken_) return absl::CancelledError("the client is gone");
    if (stopping) {
      return absl::UnavailableError(
          absl::StrCat("hearthd is stopping", advice_));
    }
    if (has_ended_) {
      if (id_.empty()) {
        return absl::InvalidArgumentError("a stream without any message");
      }
      return End();
    }
    if (!has_message_) {
      if (!Transfers::HasPassed(patient_until_)) return true;
      return absl::DeadlineExceededError(
          absl::StrCat("nothing has been sent for ",
                       absl::FormatDuration(transfers_.patience()), advice_));
    }
    if (id_.empty() && !Open()) return false;
    HEARTH_RETURN_IF_ERROR(check_());
    return Take();
  }

  /// Finds the thing that the first message names, which the caller may change.
  virtual absl::Status Enter() = 0;
  /// Takes the message, or a part of it; ReadNext() once all of it is taken.
  /// False: nothing more is wanted.
  virtual absl::StatusOr<bool> Take() = 0;
  /// The client has sent all. False: all is done.
  virtual absl::StatusOr<bool> End() = 0;

  void ReadNext() {
    has_message_ = false;
    patient_until_ = transfers_.BePatientWith(*this);
    this->StartRead(&message_);
  }

  /// INVALID_ARGUMENT if the message names another thing than the first.
  absl::Status CheckId() const {
    if (message_.id().empty() || message_.id() == id_) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("id: must be the id of the stream, ", id_));
  }

  /// Calls `work` on the second thread; Step() comes when it is done.
  void DoSlowly(std::function<void()> work) {
    works_slowly_ = true;
    transfers_.DoSlowly(
        [stream = this->shared_from_this(), work = std::move(work)] {
          work();
          stream->works_slowly_ = false;
          stream->transfers_.hub().Wake(stream.get());
        });
  }

  /// Calls Pump() soon.
  void Wake() { transfers_.hub().Wake(this); }

  const Message& message() const { return message_; }
  const std::string& id() const { return id_; }

 private:
  bool Open() {
    refusal_ = guard_.Run(context_, message_, response_,
                          [this](const Caller& caller) -> absl::Status {
                            HEARTH_ASSIGN_OR_RETURN(
                                place_, transfers_.Enter(caller.name));
                            return Enter();
                          });
    is_refused_ = !refusal_.ok();
    if (is_refused_) return false;
    id_ = message_.id();
    check_ = guard_.CheckOf(context_, message_);
    return true;
  }

  Transfers& transfers_;
  const CallGuard& guard_;
  grpc::CallbackServerContext& context_;
  google::protobuf::Message* const response_;
  const std::string advice_;
  std::function<absl::Status()> check_;
  // Empty until the stream is open.
  std::string id_;
  std::unique_ptr<Transfers::Place> place_;
  // Whether the caller may not send this.
  bool is_refused_ = false;
  grpc::Status refusal_;
  // gRPC reads into it until `has_message_`.
  Message message_;
  std::atomic<bool> works_slowly_ = false;
  std::atomic<bool> has_message_ = false;
  // Time until which the client may send the next message, on the steady clock.
  std::atomic<double> patient_until_ = std::numeric_limits<double>::infinity();
  std::atomic<bool> has_ended_ = false;
  std::atomic<bool> is_broken_ = false;
  std::shared_ptr<IncomingStream> self_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_SERVICES_INCOMING_STREAM_H_
