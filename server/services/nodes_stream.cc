#include "server/services/nodes_stream.h"

#include <atomic>
#include <cstddef>
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
#include "server/access/endpoints.h"

namespace hearth::server {
namespace {

// Nodes of a feed, pumped by the hub of transfers as uploads are: with the
// first message the caller is checked, each message is written before the next
// one is read, and the second thread waits for the disk at the end. The stream
// lives until both gRPC and the hub have released it.
class NodesStream final : public grpc::ServerReadReactor<v1::PutNodesRequest>,
                          public Watcher,
                          public std::enable_shared_from_this<NodesStream> {
 public:
  NodesStream(Transfers& transfers, const CallGuard& guard,
              NodeFiles& node_files, grpc::CallbackServerContext& context,
              v1::PutNodesResponse* response)
      : transfers_(transfers),
        guard_(guard),
        node_files_(node_files),
        context_(context),
        response_(response) {}

  void Start() {
    self_ = shared_from_this();
    // Tells the client at once that the daemon has taken the call.
    StartSendInitialMetadata();
    transfers_.hub().Add("", self_);
    Read();
  }

  bool Pump(bool stopping) override {
    if (is_finishing_) return true;
    const absl::StatusOr<bool> goes_on = Step(stopping);
    if (goes_on.ok() && *goes_on) return true;
    incoming_ = nullptr;
    place_.reset();
    Finish(is_refused_ ? refusal_ : ToGrpcStatus(goes_on.status()));
    return false;
  }

  void OnReadDone(bool ok) override {
    (ok ? has_message_ : has_ended_) = true;
    transfers_.hub().Wake(this);
  }

  void OnCancel() override {
    is_broken_ = true;
    transfers_.hub().Wake(this);
  }

  void OnDone() override {
    const std::shared_ptr<NodesStream> last_share = std::move(self_);
  }

 private:
  // False: all is done, or the client was refused.
  absl::StatusOr<bool> Step(bool stopping) {
    if (is_finished_) {
      HEARTH_RETURN_IF_ERROR(finished_);
      return false;
    }
    if (is_broken_) return absl::CancelledError("the client is gone");
    if (stopping) return absl::UnavailableError("hearthd is stopping");
    if (has_ended_) return End();
    if (!has_message_) {
      if (!Transfers::HasPassed(patient_until_)) return true;
      return absl::DeadlineExceededError(
          absl::StrCat("nothing has been sent for ",
                       absl::FormatDuration(transfers_.patience())));
    }
    if (id_.empty()) {
      if (!Open()) return false;
      // The job has the nodes.
      if (incoming_ == nullptr) return false;
    }
    HEARTH_RETURN_IF_ERROR(check_());
    if (!message_.id().empty() && message_.id() != id_) {
      return absl::InvalidArgumentError(
          absl::StrCat("id: must be the id of the stream, ", id_));
    }
    HEARTH_RETURN_IF_ERROR(incoming_->Append(
        {reinterpret_cast<const std::byte*>(message_.ids().data()),
         message_.ids().size()}));
    has_message_ = false;
    Read();
    return true;
  }

  void Read() {
    patient_until_ = transfers_.BePatientWith(*this);
    StartRead(&message_);
  }

  // Begins to take the nodes, if the caller may change the job.
  bool Open() {
    refusal_ =
        guard_.Run(context_, message_, response_,
                   [this](const Caller& caller) { return Enter(caller); });
    is_refused_ = !refusal_.ok();
    if (!is_refused_) check_ = guard_.CheckOf(context_, message_);
    return !is_refused_;
  }

  absl::Status Enter(const Caller& caller) {
    HEARTH_ASSIGN_OR_RETURN(place_, transfers_.Enter(caller.name));
    HEARTH_ASSIGN_OR_RETURN(
        incoming_, node_files_.Begin(message_.id(), message_.sha256()));
    id_ = message_.id();
    return absl::OkStatus();
  }

  absl::StatusOr<bool> End() {
    if (incoming_ == nullptr) {
      return absl::InvalidArgumentError("a stream without any message");
    }
    is_finishing_ = true;
    transfers_.DoSlowly([stream = shared_from_this()] {
      stream->finished_ = stream->incoming_->Finish();
      stream->is_finished_ = true;
      stream->is_finishing_ = false;
      stream->transfers_.hub().Wake(stream.get());
    });
    return true;
  }

  Transfers& transfers_;
  const CallGuard& guard_;
  NodeFiles& node_files_;
  grpc::CallbackServerContext& context_;
  v1::PutNodesResponse* const response_;
  std::function<absl::Status()> check_;
  // Of the job, once the stream is open.
  std::string id_;
  std::unique_ptr<NodeFiles::Incoming> incoming_;
  std::unique_ptr<Transfers::Place> place_;
  // Whether the caller may not send these nodes.
  bool is_refused_ = false;
  grpc::Status refusal_;
  // gRPC reads into it until `has_message_`.
  v1::PutNodesRequest message_;
  // Belongs to the second thread, with `incoming_`, while `is_finishing_`.
  absl::Status finished_;
  std::atomic<bool> is_finishing_ = false;
  std::atomic<bool> is_finished_ = false;
  std::atomic<bool> has_message_ = false;
  // Time until which the client may send the next message, on the steady clock.
  std::atomic<double> patient_until_ = std::numeric_limits<double>::infinity();
  std::atomic<bool> has_ended_ = false;
  std::atomic<bool> is_broken_ = false;
  std::shared_ptr<NodesStream> self_;
};

}  // namespace

grpc::ServerReadReactor<v1::PutNodesRequest>* StartNodesStream(
    Transfers& transfers, const CallGuard& guard, NodeFiles& node_files,
    grpc::CallbackServerContext& context, v1::PutNodesResponse* response) {
  const auto stream = std::make_shared<NodesStream>(
      transfers, guard, node_files, context, response);
  stream->Start();
  return stream.get();
}

}  // namespace hearth::server
