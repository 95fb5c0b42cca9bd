#include "server/services/model_stream.h"

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/mapping/field_violations.h"
#include "server/mapping/status_mapping.h"
#include "server/services/transfers.h"

namespace hearth::server {
namespace {

/// A model on its way, pumped by the hub of transfers:
///
///   1. the model is opened, if the caller may have it;
///   2. it is read once for its digest, step by step: between steps the hub
///      serves others;
///   3. the model's description is written, and then piece after piece. The
///      next one is read when the client's side has taken the last one, so that
///      the stream holds one piece however slowly the client reads.
///
/// gRPC's threads only set flags and wake the hub. The stream lives until both
/// gRPC and the hub have let it go.
class ModelStream final : public grpc::ServerWriteReactor<v1::ModelChunk>,
                          public Watcher,
                          public std::enable_shared_from_this<ModelStream> {
 public:
  ModelStream(
      Transfers& transfers, const CallGuard& guard,
      grpc::CallbackServerContext& context,
      const v1::DownloadModelRequest& request,
      std::function<absl::StatusOr<std::unique_ptr<ModelReader>>()> open)
      : transfers_(transfers),
        guard_(guard),
        context_(context),
        request_(request),
        check_(guard.CheckOf(context, request)),
        open_(std::move(open)),
        next_(request.offset()) {}

  void Start() {
    self_ = shared_from_this();
    // Tells the client at once that somebody is there.
    StartSendInitialMetadata();
    transfers_.hub().Add(request_.job_id(), self_);
  }

  bool Pump(bool stopping) override {
    if (is_writing_) {
      if (Transfers::HasPassed(patient_until_)) GiveUp();
      return true;
    }
    const absl::StatusOr<bool> goes_on = Step(stopping);
    if (goes_on.ok() && *goes_on) return true;
    place_.reset();
    Finish(is_refused_ ? refusal_ : ToGrpcStatus(goes_on.status()));
    return false;
  }

  void OnWriteDone(bool ok) override {
    if (!ok) is_broken_ = true;
    is_writing_ = false;
    transfers_.hub().Wake(this);
  }

  void OnCancel() override {
    is_broken_ = true;
    transfers_.hub().Wake(this);
  }

  void OnDone() override {
    const std::shared_ptr<ModelStream> last_share = std::move(self_);
  }

 private:
  // False: all is written, or the caller was refused.
  absl::StatusOr<bool> Step(bool stopping) {
    if (is_broken_) return absl::CancelledError("the client is gone");
    if (stopping) {
      return absl::UnavailableError(absl::StrCat(
          "hearthd is stopping; go on with the download from byte ", next_));
    }
    if (reader_ == nullptr && !Open()) return false;
    HEARTH_RETURN_IF_ERROR(check_());
    if (!is_digested_) {
      HEARTH_ASSIGN_OR_RETURN(is_digested_, reader_->Digest());
      transfers_.hub().Wake(this);
      return true;
    }
    if (!is_described_) return Describe();
    HEARTH_ASSIGN_OR_RETURN(std::string data, reader_->Read(next_));
    if (data.empty()) return false;
    next_ += data.size();
    chunk_.Clear();
    *chunk_.mutable_data() = std::move(data);
    Write();
    return true;
  }

  // Ends what is written, which the client does not take: then OnWriteDone.
  void GiveUp() {
    place_.reset();
    context_.TryCancel();
  }

  // Opens the model, if the caller may have it.
  bool Open() {
    refusal_ = guard_.Run(context_, request_, &chunk_,
                          [this](const Caller& caller) -> absl::Status {
                            HEARTH_ASSIGN_OR_RETURN(
                                place_, transfers_.Enter(caller.name));
                            HEARTH_ASSIGN_OR_RETURN(reader_, open_());
                            return CheckOffset();
                          });
    is_refused_ = !refusal_.ok();
    return !is_refused_;
  }

  absl::Status CheckOffset() const {
    FieldViolations violations;
    if (request_.offset() > 0 && request_.sha256().empty()) {
      violations.Add("sha256", "must be given with an offset");
    }
    return violations.ToStatus();
  }

  absl::StatusOr<bool> Describe() {
    const v1::Model& model = reader_->model();
    if (!request_.sha256().empty() && request_.sha256() != model.sha256()) {
      return absl::AbortedError(
          absl::StrCat("the model of ", request_.job_id(), " has the SHA-256 ",
                       model.sha256(), " now, not ", request_.sha256(),
                       ": download it from its beginning"));
    }
    if (next_ > model.size_bytes()) {
      FieldViolations violations;
      violations.Add("offset",
                     absl::StrCat("must be at most ", model.size_bytes(),
                                  ", not ", next_));
      return violations.ToStatus();
    }
    is_described_ = true;
    *chunk_.mutable_model() = model;
    Write();
    return true;
  }

  void Write() {
    patient_until_ = transfers_.BePatientWith(*this);
    is_writing_ = true;
    StartWrite(&chunk_);
  }

  Transfers& transfers_;
  std::unique_ptr<Transfers::Place> place_;
  const CallGuard& guard_;
  grpc::CallbackServerContext& context_;
  const v1::DownloadModelRequest request_;
  const std::function<absl::Status()> check_;
  const std::function<absl::StatusOr<std::unique_ptr<ModelReader>>()> open_;
  std::unique_ptr<ModelReader> reader_;
  bool is_digested_ = false;
  bool is_described_ = false;
  // Whether the caller may not have the model, or the model is not there.
  bool is_refused_ = false;
  grpc::Status refusal_;
  uint64_t next_;
  v1::ModelChunk chunk_;
  std::atomic<bool> is_writing_ = false;
  // How long the client may take for the chunk, on the steady clock.
  double patient_until_ = 0;
  std::atomic<bool> is_broken_ = false;
  std::shared_ptr<ModelStream> self_;
};

}  // namespace

grpc::ServerWriteReactor<v1::ModelChunk>* StartModelStream(
    Transfers& transfers, const CallGuard& guard,
    grpc::CallbackServerContext& context,
    const v1::DownloadModelRequest& request,
    std::function<absl::StatusOr<std::unique_ptr<ModelReader>>()> open) {
  const auto stream = std::make_shared<ModelStream>(transfers, guard, context,
                                                    request, std::move(open));
  stream->Start();
  return stream.get();
}

}  // namespace hearth::server
