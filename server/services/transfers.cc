#include "server/services/transfers.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "server/access/endpoints.h"
#include "server/mapping/request_checks.h"
#include "server/services/incoming_stream.h"
#include "server/storage/staged_upload.h"
#include "server/storage/upload_staging.h"

namespace hearth::server {

Transfers::~Transfers() {
  {
    absl::MutexLock lock(&mutex_);
    exiting_ = true;
    slow_.Signal();
  }
  slow_thread_.join();
}

double Transfers::BePatientWith(const Watcher& transfer) {
  const double until =
      Clock::Real().SteadySeconds() + absl::ToDoubleSeconds(patience_);
  hub_.WakeAt(&transfer, until);
  return until;
}

void Transfers::DoSlowly(std::function<void()> work) {
  absl::MutexLock lock(&mutex_);
  slow_work_.push_back(std::move(work));
  slow_.Signal();
}

void Transfers::RunSlowly() {
  while (const std::function<void()> work = NextSlowWork()) work();
}

std::function<void()> Transfers::NextSlowWork() {
  absl::MutexLock lock(&mutex_);
  while (!exiting_ && slow_work_.empty()) slow_.Wait(&mutex_);
  if (exiting_) return nullptr;
  std::function<void()> work = std::move(slow_work_.front());
  slow_work_.pop_front();
  return work;
}

namespace {

// Download of a model, pumped by the hub of transfers:
//
//   1. the model is opened, if the caller may have it;
//   2. it is read once for its digest, step by step: between steps the hub
//      serves other transfers;
//   3. the model's description is written, and then chunk after chunk. The next
//      chunk is read once gRPC has taken the last one, so that the stream holds
//      one chunk however slowly the client reads.
//
// gRPC's threads only set flags and wake the hub. The stream lives until both
// gRPC and the hub have released it.
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
    // Tells the client at once that the daemon has taken the call.
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
  // False: everything is written, or the caller was refused.
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

  // Ends a write that the client does not take; OnWriteDone follows.
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
  // Whether the caller may not have the model, or it does not exist.
  bool is_refused_ = false;
  grpc::Status refusal_;
  uint64_t next_;
  v1::ModelChunk chunk_;
  std::atomic<bool> is_writing_ = false;
  // Time until which the client may take the chunk, on the steady clock.
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

namespace {

absl::Span<const std::byte> BytesOf(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// Bytes of an upload. Those received before the daemon's start are caught up
// with, step by step: between steps the hub serves other transfers. The second
// thread finishes files; there a slow disk delays only other files being
// finished.
class UploadStream final : public IncomingStream<v1::UploadChunk> {
 public:
  UploadStream(Transfers& transfers, const CallGuard& guard,
               UploadStaging& uploads, grpc::CallbackServerContext& context,
               v1::Upload* response)
      : IncomingStream(
            transfers, guard, context, response,
            "; what has come stays: go on with the upload from there"),
        uploads_(uploads),
        response_(response) {}

 private:
  absl::Status Enter() override {
    HEARTH_ASSIGN_OR_RETURN(upload_, uploads_.Find(message().id()));
    return absl::OkStatus();
  }

  absl::StatusOr<bool> Take() override {
    // The upload may have been removed since; later errors would not say so.
    HEARTH_RETURN_IF_ERROR(uploads_.Find(id()).status());
    HEARTH_RETURN_IF_ERROR(finished_);
    HEARTH_ASSIGN_OR_RETURN(const bool is_ready, upload_->CatchUp());
    if (!is_ready) {
      Wake();
      return true;
    }
    HEARTH_RETURN_IF_ERROR(CheckId());
    if (!upload_->IsFileFull()) {
      HEARTH_ASSIGN_OR_RETURN(
          const size_t taken,
          upload_->Append(message().offset() + taken_,
                          BytesOf(message().data()).subspan(taken_)));
      taken_ += taken;
    }
    if (upload_->IsFileFull()) {
      DoSlowly([this] { finished_ = upload_->FinishFile(); });
      return true;
    }
    taken_ = 0;
    ReadNext();
    return true;
  }

  absl::StatusOr<bool> End() override {
    HEARTH_ASSIGN_OR_RETURN(*response_, uploads_.Get(id()));
    return false;
  }

  UploadStaging& uploads_;
  v1::Upload* const response_;
  std::shared_ptr<StagedUpload> upload_;
  // Number of the message's bytes that are written.
  size_t taken_ = 0;
  // Belongs to the second thread while it finishes a file.
  absl::Status finished_;
};

}  // namespace

grpc::ServerReadReactor<v1::UploadChunk>* StartUploadStream(
    Transfers& transfers, const CallGuard& guard, UploadStaging& uploads,
    grpc::CallbackServerContext& context, v1::Upload* response) {
  const auto stream = std::make_shared<UploadStream>(transfers, guard, uploads,
                                                     context, response);
  stream->Start();
  return stream.get();
}

}  // namespace hearth::server
