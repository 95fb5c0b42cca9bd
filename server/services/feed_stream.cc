#include "server/services/feed_stream.h"

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "server/access/endpoints.h"
#include "server/feeds/feed_session.h"
#include "server/feeds/feed_socket.h"
#include "server/feeds/piece_sink.h"

namespace hearth::server {
namespace {

// Time after which a stream is looked at, though nothing has happened: its
// caller's token may have been revoked.
constexpr double kTickSeconds = 1;
// Time that a message under way has when the stream ends.
constexpr double kLastWriteSeconds = 1;

double Now() { return Clock::Real().SteadySeconds(); }

// A client's stream, pumped by the hub of feeds' streams:
//
//   1. the caller takes a place; its first message, in time, has the ticket;
//   2. messages of the client are taken one by one: gRPC's threads only note
//      that one has come and wake the hub;
//   3. jobs put messages, and slots, into the sink, which wakes the hub. The
//      next message is made when gRPC has taken the last one, so that the
//      stream holds one piece however slowly the client reads;
//   4. at its end, whatever the reason, the client leaves its feed at once; the
//      call is over when the write under way is.
//
// The stream lives until both gRPC and the hub have released it.
class FeedStream final
    : public grpc::ServerBidiReactor<v1::FeedUp, v1::FeedDown>,
      public Watcher,
      public std::enable_shared_from_this<FeedStream> {
 public:
  FeedStream(FeedStreams& streams, const CallGuard& guard,
             AccessControl& access, Feeds& feeds,
             grpc::CallbackServerContext& context)
      : streams_(streams),
        access_(access),
        feeds_(feeds),
        context_(context),
        check_(guard.CheckOf(context, v1::FeedUp())),
        hello_until_(Now() +
                     absl::ToDoubleSeconds(FeedSocket::kHelloPatience)) {
    const Watcher* key = this;
    auto sink = std::make_unique<PieceSink>(
        [&hub = streams.hub(), key] { hub.Wake(key); });
    sink_ = sink.get();
    session_ = std::make_shared<FeedSession>(
        std::move(sink),
        [this](const std::string& ticket) { return Redeem(ticket); });
  }

  void Start() {
    self_ = shared_from_this();
    // Tells the client at once that the daemon has taken the call.
    StartSendInitialMetadata();
    streams_.hub().Add("", self_);
    StartRead(&up_);
  }

  bool Pump(bool stopping) override {
    if (!end_.has_value()) {
      const absl::StatusOr<bool> goes_on = Step(stopping);
      if (goes_on.ok() && *goes_on) {
        streams_.hub().WakeAt(this, Now() + kTickSeconds);
        return true;
      }
      End(goes_on.status());
    }
    if (is_writing_) {
      if (Now() >= write_until_) context_.TryCancel();
      streams_.hub().WakeAt(this, Now() + kTickSeconds);
      return true;
    }
    Finish(ToGrpcStatus(*end_));
    return false;
  }

  void OnReadDone(bool ok) override {
    (ok ? has_message_ : has_read_all_) = true;
    streams_.hub().Wake(this);
  }

  void OnWriteDone(bool ok) override {
    if (!ok) is_broken_ = true;
    is_writing_ = false;
    streams_.hub().Wake(this);
  }

  void OnCancel() override {
    is_broken_ = true;
    streams_.hub().Wake(this);
  }

  void OnDone() override {
    const std::shared_ptr<FeedStream> last_share = std::move(self_);
  }

 private:
  // False: the client has ended the stream, or its job has, and was told.
  absl::StatusOr<bool> Step(bool stopping) {
    if (is_broken_) return absl::CancelledError("the client is gone");
    if (stopping) {
      return absl::UnavailableError("hearthd is stopping; attach again");
    }
    HEARTH_RETURN_IF_ERROR(check_());
    if (place_ == nullptr) HEARTH_RETURN_IF_ERROR(Enter());
    if (has_message_) HEARTH_RETURN_IF_ERROR(Take());
    if (!session_->has_said_hello() && !has_read_all_ &&
        Now() >= hello_until_) {
      return absl::DeadlineExceededError(
          absl::StrCat("no ticket has come within ",
                       absl::FormatDuration(FeedSocket::kHelloPatience)));
    }
    if (has_read_all_) return false;
    if (sink_->is_lost()) {
      return absl::ResourceExhaustedError(
          "the client does not read what it has asked for");
    }
    if (!is_writing_ && sink_->has_ended()) return false;
    return Write();
  }

  absl::Status Enter() {
    HEARTH_ASSIGN_OR_RETURN(const Caller caller,
                            access_.Identify(CredentialsOf(context_)));
    caller_ = caller.name;
    HEARTH_ASSIGN_OR_RETURN(place_, streams_.places().Enter(caller_));
    return absl::OkStatus();
  }

  absl::StatusOr<std::shared_ptr<feed::Channel>> Redeem(
      const std::string& ticket) {
    return feeds_.Redeem(ticket, caller_);
  }

  // Takes the client's message, and waits for the next one.
  absl::Status Take() {
    if (up_.ByteSizeLong() > FeedSocket::kMaxMessage) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a message is longer than ", FeedSocket::kMaxMessage, " bytes"));
    }
    HEARTH_RETURN_IF_ERROR(session_->Receive(up_));
    has_message_ = false;
    StartRead(&up_);
    return absl::OkStatus();
  }

  // Begins to write the next message, if there is one. True, or an error: the
  // client does not take the last one.
  absl::StatusOr<bool> Write() {
    if (is_writing_) {
      if (Now() < write_until_) return true;
      return absl::DeadlineExceededError(absl::StrCat(
          "nothing was read for ", absl::FormatDuration(streams_.patience())));
    }
    if (!sink_->Next(down_)) return true;
    write_until_ = Now() + absl::ToDoubleSeconds(streams_.patience());
    is_writing_ = true;
    StartWrite(&down_);
    return true;
  }

  void End(const absl::Status& status) {
    end_ = status;
    write_until_ = Now() + kLastWriteSeconds;
    sink_->Close();
    session_->Leave();
    place_.reset();
  }

  FeedStreams& streams_;
  AccessControl& access_;
  Feeds& feeds_;
  grpc::CallbackServerContext& context_;
  const std::function<absl::Status()> check_;
  // Time until which the client may say hello, on the steady clock.
  const double hello_until_;
  std::string caller_;
  std::unique_ptr<Places::Place> place_;
  std::shared_ptr<FeedSession> session_;
  // Owned by the session.
  PieceSink* sink_ = nullptr;
  // gRPC reads into it until `has_message_`.
  v1::FeedUp up_;
  std::atomic<bool> has_message_ = false;
  std::atomic<bool> has_read_all_ = false;
  // gRPC writes it while `is_writing_`.
  v1::FeedDown down_;
  std::atomic<bool> is_writing_ = false;
  // Time until which the client may take it, on the steady clock.
  double write_until_ = 0;
  std::atomic<bool> is_broken_ = false;
  // The call's status, once it is to end.
  std::optional<absl::Status> end_;
  std::shared_ptr<FeedStream> self_;
};

}  // namespace

grpc::ServerBidiReactor<v1::FeedUp, v1::FeedDown>* StartFeedStream(
    FeedStreams& streams, const CallGuard& guard, AccessControl& access,
    Feeds& feeds, grpc::CallbackServerContext& context) {
  const auto stream =
      std::make_shared<FeedStream>(streams, guard, access, feeds, context);
  stream->Start();
  return stream.get();
}

}  // namespace hearth::server
