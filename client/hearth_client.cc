#include "client/hearth_client.h"

#include <google/protobuf/message.h>
#include <google/protobuf/stubs/common.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "client/connection.h"
#include "client/server_choice.h"
#include "engine/base/status.h"
#include "engine/base/trace_parent.h"
#include "engine/base/version.h"
#include "hearth/v1/admin.grpc.pb.h"
#include "hearth/v1/datasets.grpc.pb.h"
#include "hearth/v1/jobs.grpc.pb.h"
#include "hearth/v1/peers.grpc.pb.h"
#include "hearth/v1/plans.grpc.pb.h"
#include "hearth/v1/sweeps.grpc.pb.h"

namespace hearth::client {
namespace {

constexpr int kJobsPerPage = 200;
// Bytes of one message of an upload.
constexpr size_t kChunkBytes = 512 << 10;
// Attempts to send files whose digests differ at the daemon.
constexpr int kFileAttempts = 3;
// Metadata that the daemon sends when a watch has begun, before any event.
constexpr char kWatchIsOpen[] = "hearth-watch";

// INVALID_ARGUMENT naming the field if a string of a request is not UTF-8, as
// protobuf requires: names of files may be any bytes.
absl::Status CheckTexts(const google::protobuf::Message& request) {
  const google::protobuf::Reflection& reflection = *request.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(request, &fields);
  for (const google::protobuf::FieldDescriptor* field : fields) {
    const int size =
        field->is_repeated() ? reflection.FieldSize(request, field) : 1;
    for (int i = 0; i < size; ++i) {
      if (field->cpp_type() ==
          google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) {
        HEARTH_RETURN_IF_ERROR(
            CheckTexts(field->is_repeated()
                           ? reflection.GetRepeatedMessage(request, field, i)
                           : reflection.GetMessage(request, field)));
      } else if (field->type() ==
                 google::protobuf::FieldDescriptor::TYPE_STRING) {
        const std::string text =
            field->is_repeated()
                ? reflection.GetRepeatedString(request, field, i)
                : reflection.GetString(request, field);
        if (google::protobuf::internal::IsStructurallyValidUTF8(text)) continue;
        return absl::InvalidArgumentError(
            absl::StrCat(field->name(), ": \"", absl::CHexEscape(text),
                         "\" is not UTF-8, as text for hearthd must be"));
      }
    }
  }
  return absl::OkStatus();
}

class GrpcClient : public Client {
 public:
  explicit GrpcClient(const ClientOptions& options)
      : options_(options),
        trace_parent_(TraceIdOf(options.trace_parent).empty()
                          ? NewTraceParent()
                          : options.trace_parent),
        channel_(NewChannel(options)),
        jobs_(v1::Jobs::NewStub(channel_)),
        datasets_(v1::Datasets::NewStub(channel_)),
        plans_(v1::Plans::NewStub(channel_)),
        sweeps_(v1::Sweeps::NewStub(channel_)),
        admin_(v1::Admin::NewStub(channel_)),
        peers_(v1::Peers::NewStub(channel_)) {}

  absl::StatusOr<v1::Job> SubmitJob(const v1::JobSpec& spec, int priority,
                                    const std::string& request_id) override {
    v1::SubmitJobRequest request;
    request.set_request_id(request_id);
    request.set_priority(priority);
    *request.mutable_spec() = spec;
    return Call<v1::Job>(*jobs_, &v1::Jobs::Stub::SubmitJob, request);
  }

  absl::StatusOr<v1::Job> GetJob(const std::string& id) override {
    v1::GetJobRequest request;
    request.set_id(id);
    return Call<v1::Job>(*jobs_, &v1::Jobs::Stub::GetJob, request);
  }

  absl::StatusOr<std::vector<v1::Job>> ListJobs(
      const std::vector<v1::JobState>& states) override {
    std::vector<v1::Job> jobs;
    std::string page_token;
    do {
      HEARTH_ASSIGN_OR_RETURN(const v1::ListJobsResponse page,
                              ListPage(states, page_token));
      jobs.insert(jobs.end(), page.jobs().begin(), page.jobs().end());
      page_token = page.next_page_token();
    } while (!page_token.empty());
    return jobs;
  }

  absl::StatusOr<std::vector<v1::Job>> ListNewestJobs(
      const std::vector<v1::JobState>& states) override {
    HEARTH_ASSIGN_OR_RETURN(const v1::ListJobsResponse page,
                            ListPage(states, /*page_token=*/""));
    return std::vector<v1::Job>(page.jobs().begin(), page.jobs().end());
  }

  absl::StatusOr<v1::Job> CancelJob(const std::string& id) override {
    v1::CancelJobRequest request;
    request.set_id(id);
    return Call<v1::Job>(*jobs_, &v1::Jobs::Stub::CancelJob, request);
  }

  absl::StatusOr<v1::Job> ResumeJob(const std::string& id,
                                    const v1::JobSpec& spec) override {
    v1::ResumeJobRequest request;
    request.set_request_id(NewRequestId());
    request.set_id(id);
    *request.mutable_spec() = spec;
    return Call<v1::Job>(*jobs_, &v1::Jobs::Stub::ResumeJob, request);
  }

  absl::StatusOr<v1::Job> AdoptJob(const std::string& id) override {
    v1::AdoptJobRequest request;
    request.set_id(id);
    return Call<v1::Job>(*jobs_, &v1::Jobs::Stub::AdoptJob, request);
  }

  absl::Status DeleteJob(const std::string& id) override {
    v1::DeleteJobRequest request;
    request.set_id(id);
    request.set_request_id(NewRequestId());
    return Call<google::protobuf::Empty>(*jobs_, &v1::Jobs::Stub::DeleteJob,
                                         request)
        .status();
  }

  absl::Status DownloadModel(const std::string& id, ModelSink& sink,
                             std::stop_token stop) override {
    SilenceWatch silence(options_.silence_limit, options_.on_silence);
    Backoff backoff(options_.first_backoff, options_.watch_patience);
    while (true) {
      v1::DownloadModelRequest request = sink.Next();
      request.set_job_id(id);
      absl::Status taken;
      const absl::Status status = Stream<v1::ModelChunk>(
          *jobs_, &v1::Jobs::Stub::DownloadModel, request,
          [&](const v1::ModelChunk& chunk) {
            backoff.Reset();
            taken = sink.Take(chunk);
            return taken.ok();
          },
          silence, stop);
      HEARTH_RETURN_IF_ERROR(taken);
      if (status.ok()) return status;
      if (stop.stop_requested()) return TransferStopped();
      if (absl::IsAborted(status) && !request.sha256().empty()) {
        HEARTH_RETURN_IF_ERROR(sink.StartOver());
        continue;
      }
      if (!IsBroken(status)) return status;
      silence.Lost(SilenceBefore(status));
      if (!backoff.Pause(stop)) {
        return stop.stop_requested() ? TransferStopped() : status;
      }
    }
  }

  absl::Status WatchJob(const std::string& id, uint64_t from_sequence,
                        const EventSink& sink, std::stop_token stop) override {
    v1::WatchJobRequest request;
    request.set_id(id);
    WatchCalls<v1::JobEvent> calls;
    calls.has_ended = [&]() -> absl::StatusOr<bool> {
      HEARTH_ASSIGN_OR_RETURN(const v1::Job job, GetJob(id));
      return HasEnded(job.state());
    };
    return Watch(*jobs_, &v1::Jobs::Stub::WatchJob, request, std::move(calls),
                 from_sequence, sink, std::move(stop));
  }

  absl::StatusOr<std::vector<v1::JobEvent>> TailJob(const std::string& id,
                                                    uint32_t count) override {
    v1::TailJobRequest request;
    request.set_id(id);
    request.set_count(count);
    HEARTH_ASSIGN_OR_RETURN(
        const v1::TailJobResponse response,
        Call<v1::TailJobResponse>(*jobs_, &v1::Jobs::Stub::TailJob, request));
    return std::vector<v1::JobEvent>(response.events().begin(),
                                     response.events().end());
  }

  absl::StatusOr<std::vector<v1::Dataset>> ListDatasets() override {
    HEARTH_ASSIGN_OR_RETURN(const v1::ListDatasetsResponse response,
                            Call<v1::ListDatasetsResponse>(
                                *datasets_, &v1::Datasets::Stub::ListDatasets,
                                v1::ListDatasetsRequest()));
    return std::vector<v1::Dataset>(response.datasets().begin(),
                                    response.datasets().end());
  }

  absl::StatusOr<v1::Dataset> GetDataset(const std::string& name) override {
    v1::GetDatasetRequest request;
    request.set_name(name);
    return Call<v1::Dataset>(*datasets_, &v1::Datasets::Stub::GetDataset,
                             request);
  }

  absl::Status DeleteDataset(const std::string& name) override {
    v1::DeleteDatasetRequest request;
    request.set_name(name);
    request.set_request_id(NewRequestId());
    return Call<google::protobuf::Empty>(
               *datasets_, &v1::Datasets::Stub::DeleteDataset, request)
        .status();
  }

  absl::StatusOr<std::vector<v1::Upload>> ListUploads() override {
    HEARTH_ASSIGN_OR_RETURN(const v1::ListUploadsResponse response,
                            Call<v1::ListUploadsResponse>(
                                *datasets_, &v1::Datasets::Stub::ListUploads,
                                v1::ListUploadsRequest()));
    return std::vector<v1::Upload>(response.uploads().begin(),
                                   response.uploads().end());
  }

  absl::Status DeleteUpload(const std::string& id) override {
    v1::DeleteUploadRequest request;
    request.set_id(id);
    request.set_request_id(NewRequestId());
    return Call<google::protobuf::Empty>(
               *datasets_, &v1::Datasets::Stub::DeleteUpload, request)
        .status();
  }

  absl::StatusOr<v1::Upload> Upload(const v1::BeginUploadRequest& request,
                                    UploadSource& source,
                                    std::stop_token stop) override {
    SilenceWatch silence(options_.silence_limit, options_.on_silence);
    Backoff backoff(options_.first_backoff, options_.watch_patience);
    uint64_t received = 0;
    for (int attempt = 1;;) {
      // The answer tells how many bytes the daemon has, too.
      absl::StatusOr<v1::Upload> upload = Call<v1::Upload>(
          *datasets_, &v1::Datasets::Stub::BeginUpload, request);
      absl::Status status = upload.status();
      if (upload.ok()) {
        silence.Heard();
        if (upload->received_bytes() > received) backoff.Reset();
        received = upload->received_bytes();
        status = Send(*upload, source, stop);
      }
      if (status.ok()) return upload;
      if (stop.stop_requested()) return TransferStopped();
      const bool is_other =
          absl::IsAborted(status) || absl::IsOutOfRange(status);
      if (is_other ? ++attempt > kFileAttempts : !IsBroken(status)) {
        return status;
      }
      silence.Lost(SilenceBefore(status));
      if (!backoff.Pause(stop)) {
        return stop.stop_requested() ? TransferStopped() : status;
      }
    }
  }

  absl::StatusOr<std::vector<v1::Plan>> ListPlans() override {
    HEARTH_ASSIGN_OR_RETURN(
        const v1::ListPlansResponse response,
        Call<v1::ListPlansResponse>(*plans_, &v1::Plans::Stub::ListPlans,
                                    v1::ListPlansRequest()));
    return std::vector<v1::Plan>(response.plans().begin(),
                                 response.plans().end());
  }

  absl::StatusOr<v1::Plan> GetPlan(const std::string& name) override {
    v1::GetPlanRequest request;
    request.set_name(name);
    return Call<v1::Plan>(*plans_, &v1::Plans::Stub::GetPlan, request);
  }

  absl::Status DeletePlan(const std::string& name) override {
    v1::DeletePlanRequest request;
    request.set_name(name);
    request.set_request_id(NewRequestId());
    return Call<google::protobuf::Empty>(*plans_, &v1::Plans::Stub::DeletePlan,
                                         request)
        .status();
  }

  absl::StatusOr<v1::Sweep> SubmitSweep(const v1::SweepSpec& spec,
                                        int priority) override {
    v1::SubmitSweepRequest request;
    request.set_request_id(NewRequestId());
    request.set_priority(priority);
    *request.mutable_spec() = spec;
    return Call<v1::Sweep>(*sweeps_, &v1::Sweeps::Stub::SubmitSweep, request);
  }

  absl::StatusOr<v1::Sweep> GetSweep(const std::string& id) override {
    return OfSweep<v1::GetSweepRequest>(&v1::Sweeps::Stub::GetSweep, id);
  }

  absl::StatusOr<std::vector<v1::Sweep>> ListSweeps() override {
    HEARTH_ASSIGN_OR_RETURN(
        const v1::ListSweepsResponse response,
        Call<v1::ListSweepsResponse>(*sweeps_, &v1::Sweeps::Stub::ListSweeps,
                                     v1::ListSweepsRequest()));
    return std::vector<v1::Sweep>(response.sweeps().begin(),
                                  response.sweeps().end());
  }

  absl::StatusOr<v1::Sweep> PauseSweep(const std::string& id) override {
    return OfSweep<v1::PauseSweepRequest>(&v1::Sweeps::Stub::PauseSweep, id);
  }

  absl::StatusOr<v1::Sweep> ResumeSweep(const std::string& id) override {
    return OfSweep<v1::ResumeSweepRequest>(&v1::Sweeps::Stub::ResumeSweep, id);
  }

  absl::StatusOr<v1::Sweep> StopSweep(const std::string& id) override {
    return OfSweep<v1::StopSweepRequest>(&v1::Sweeps::Stub::StopSweep, id);
  }

  absl::StatusOr<v1::Sweep> StopTrial(const std::string& id,
                                      uint32_t trial) override {
    v1::StopTrialRequest request;
    request.set_id(id);
    request.set_trial(trial);
    return Call<v1::Sweep>(*sweeps_, &v1::Sweeps::Stub::StopTrial, request);
  }

  absl::StatusOr<v1::Sweep> AddTrial(
      const v1::AddTrialRequest& request) override {
    return Call<v1::Sweep>(*sweeps_, &v1::Sweeps::Stub::AddTrial, request);
  }

  absl::Status DeleteSweep(const std::string& id) override {
    v1::DeleteSweepRequest request;
    request.set_id(id);
    request.set_request_id(NewRequestId());
    return Call<google::protobuf::Empty>(
               *sweeps_, &v1::Sweeps::Stub::DeleteSweep, request)
        .status();
  }

  absl::Status WatchSweep(const std::string& id, uint64_t from_sequence,
                          const SweepEventSink& sink,
                          std::stop_token stop) override {
    v1::WatchSweepRequest request;
    request.set_id(id);
    WatchCalls<v1::SweepEvent> calls;
    calls.has_ended = [&]() -> absl::StatusOr<bool> {
      HEARTH_ASSIGN_OR_RETURN(const v1::Sweep sweep, GetSweep(id));
      return HasEnded(sweep.state());
    };
    return Watch(*sweeps_, &v1::Sweeps::Stub::WatchSweep, request,
                 std::move(calls), from_sequence, sink, std::move(stop));
  }

  absl::StatusOr<v1::Status> GetStatus() override {
    return Call<v1::Status>(*admin_, &v1::Admin::Stub::GetStatus,
                            v1::GetStatusRequest());
  }

  absl::StatusOr<v1::ListMembersResponse> ListMembers() override {
    return Call<v1::ListMembersResponse>(*admin_, &v1::Admin::Stub::ListMembers,
                                         v1::ListMembersRequest());
  }

  absl::StatusOr<v1::Enrolled> Enroll(
      const v1::EnrollRequest& request) override {
    return Call<v1::Enrolled>(*peers_, &v1::Peers::Stub::Enroll, request);
  }

  absl::StatusOr<v1::Status> SetDraining(bool draining) override {
    v1::SetDrainingRequest request;
    request.set_draining(draining);
    return Call<v1::Status>(*admin_, &v1::Admin::Stub::SetDraining, request);
  }

  absl::StatusOr<v1::NewToken> CreateToken(
      const v1::CreateTokenRequest& request) override {
    HEARTH_RETURN_IF_ERROR(CheckTexts(request));
    grpc::ClientContext context;
    AddMetadata(context);
    v1::NewToken token;
    HEARTH_RETURN_IF_ERROR(
        CallStatus(admin_->CreateToken(&context, request, &token), *channel_,
                   options_.server));
    return token;
  }

  absl::StatusOr<std::vector<v1::Token>> ListTokens() override {
    HEARTH_ASSIGN_OR_RETURN(
        const v1::ListTokensResponse response,
        Call<v1::ListTokensResponse>(*admin_, &v1::Admin::Stub::ListTokens,
                                     v1::ListTokensRequest()));
    return std::vector<v1::Token>(response.tokens().begin(),
                                  response.tokens().end());
  }

  absl::StatusOr<v1::Token> RevokeToken(const std::string& name) override {
    v1::RevokeTokenRequest request;
    request.set_name(name);
    return Call<v1::Token>(*admin_, &v1::Admin::Stub::RevokeToken, request);
  }

  // Not repeated: a second call would find the folder of the first.
  absl::StatusOr<v1::BackupReport> BackUp(
      const std::string& destination) override {
    v1::BackupRequest request;
    request.set_destination(destination);
    HEARTH_RETURN_IF_ERROR(CheckTexts(request));
    grpc::ClientContext context;
    AddMetadata(context);
    v1::BackupReport report;
    HEARTH_RETURN_IF_ERROR(
        CallStatus(admin_->Backup(&context, request, &report), *channel_,
                   options_.server));
    return report;
  }

 private:
  absl::StatusOr<v1::ListJobsResponse> ListPage(
      const std::vector<v1::JobState>& states, const std::string& page_token) {
    v1::ListJobsRequest request;
    request.set_page_size(kJobsPerPage);
    request.set_page_token(page_token);
    for (const v1::JobState state : states) request.add_states(state);
    return Call<v1::ListJobsResponse>(*jobs_, &v1::Jobs::Stub::ListJobs,
                                      request);
  }

  // Adds version, trace and token. A token is not sent where others could read
  // it.
  void AddMetadata(grpc::ClientContext& context) const {
    context.AddMetadata("hearth-version", kVersion);
    context.AddMetadata("traceparent", trace_parent_);
    if (options_.token.empty()) return;
    if (options_.ca.empty() && !IsLocal(options_.server)) return;
    context.AddMetadata("authorization",
                        absl::StrCat("Bearer ", options_.token));
  }

  // Makes a call whose request is a sweep's id.
  template <typename Request>
  absl::StatusOr<v1::Sweep> OfSweep(
      grpc::Status (v1::Sweeps::Stub::*method)(grpc::ClientContext*,
                                               const Request&, v1::Sweep*),
      const std::string& id) {
    Request request;
    request.set_id(id);
    return Call<v1::Sweep>(*sweeps_, method, request);
  }

  // Makes a call, and repeats it while the daemon cannot be reached. Any call
  // may be repeated: requests that change something have a request id.
  template <typename Response, typename Stub, typename Request>
  absl::StatusOr<Response> Call(
      Stub& stub,
      grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                   Response*),
      const Request& request) {
    HEARTH_RETURN_IF_ERROR(CheckTexts(request));
    Backoff backoff(options_.first_backoff, absl::InfiniteDuration());
    SilenceWatch silence(options_.silence_limit, options_.on_silence);
    silence.Lost(absl::ZeroDuration());
    for (int attempt = 1;; ++attempt) {
      AwaitConnection(*channel_);
      grpc::ClientContext context;
      AddMetadata(context);
      context.set_deadline(std::chrono::system_clock::now() +
                           absl::ToChronoMilliseconds(options_.call_timeout));
      Response response;
      const absl::Status status =
          CallStatus((stub.*method)(&context, request, &response), *channel_,
                     options_.server);
      const bool answered = !IsUnreachable(status);
      if (answered) silence.Heard();
      if (status.ok()) return response;
      if (answered || attempt >= options_.call_attempts) return status;
      backoff.Pause(std::stop_token());
    }
  }

  // Watches the job or sweep of `request` through breaks. `calls` has only
  // has_ended set.
  template <typename Event, typename Stub, typename Request>
  absl::Status Watch(Stub& stub,
                     std::unique_ptr<grpc::ClientReader<Event>> (Stub::*method)(
                         grpc::ClientContext*, const Request&),
                     Request request, WatchCalls<Event> calls,
                     uint64_t from_sequence,
                     const std::function<bool(const Event&)>& sink,
                     std::stop_token stop) {
    SilenceWatch silence(options_.silence_limit, options_.on_silence);
    calls.stream = [&](uint64_t from,
                       const std::function<bool(const Event&)>& take) {
      request.set_from_sequence(from);
      const absl::Status status =
          Stream(stub, method, request, take, silence, stop);
      if (!status.ok()) silence.Lost(SilenceBefore(status));
      return status;
    };
    calls.is_state = [](const Event& event) { return event.has_state(); };
    calls.is_end = [](const Event& event) {
      return HasEnded(event.state().state());
    };
    return EventWatch<Event>(
               calls, from_sequence, sink, stop,
               Backoff(options_.first_backoff, options_.watch_patience))
        .Run();
  }

  template <typename Event, typename Stub, typename Request>
  absl::Status Stream(Stub& stub,
                      std::unique_ptr<grpc::ClientReader<Event>> (
                          Stub::*method)(grpc::ClientContext*, const Request&),
                      const Request& request,
                      const std::function<bool(const Event&)>& sink,
                      SilenceWatch& silence, const std::stop_token& stop) {
    AwaitConnection(*channel_);
    grpc::ClientContext context;
    AddMetadata(context);
    const std::unique_ptr<grpc::ClientReader<Event>> reader =
        (stub.*method)(&context, request);
    const std::stop_callback cancel(stop, [&context] { context.TryCancel(); });
    reader->WaitForInitialMetadata();
    if (context.GetServerInitialMetadata().contains(kWatchIsOpen)) {
      silence.Heard();
    }
    Event event;
    while (reader->Read(&event)) {
      silence.Heard();
      if (!sink(event)) {
        context.TryCancel();
        break;
      }
    }
    return CallStatus(reader->Finish(), *channel_, options_.server);
  }

  static absl::Status TransferStopped() {
    return absl::CancelledError("the transfer was stopped");
  }

  // Sends the missing bytes of `upload`, and updates it.
  absl::Status Send(v1::Upload& upload, UploadSource& source,
                    const std::stop_token& stop) {
    AwaitConnection(*channel_);
    grpc::ClientContext context;
    AddMetadata(context);
    v1::Upload sent;
    const std::unique_ptr<grpc::ClientWriter<v1::UploadChunk>> writer =
        datasets_->SendUpload(&context, &sent);
    const std::stop_callback cancel(stop, [&context] { context.TryCancel(); });
    absl::Status read;
    v1::UploadChunk chunk;
    chunk.set_id(upload.id());
    uint64_t offset = upload.received_bytes();
    // A whole upload is sent one empty message: its last files may be empty.
    do {
      absl::StatusOr<std::string> data = source.Read(offset, kChunkBytes);
      read = data.status();
      if (!read.ok()) break;
      chunk.set_offset(offset);
      *chunk.mutable_data() = *std::move(data);
      if (!writer->Write(chunk)) break;
      offset += chunk.data().size();
      source.OnSent(offset);
    } while (offset < upload.size_bytes());
    if (!read.ok()) context.TryCancel();
    writer->WritesDone();
    const absl::Status status =
        CallStatus(writer->Finish(), *channel_, options_.server);
    HEARTH_RETURN_IF_ERROR(read);
    if (status.ok()) upload = sent;
    return status;
  }

  const ClientOptions options_;
  const std::string trace_parent_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::Jobs::Stub> jobs_;
  const std::unique_ptr<v1::Datasets::Stub> datasets_;
  const std::unique_ptr<v1::Plans::Stub> plans_;
  const std::unique_ptr<v1::Sweeps::Stub> sweeps_;
  const std::unique_ptr<v1::Admin::Stub> admin_;
  const std::unique_ptr<v1::Peers::Stub> peers_;
};

}  // namespace

absl::StatusOr<v1::Job> Client::SubmitJob(const v1::JobSpec& spec,
                                          int priority) {
  return SubmitJob(spec, priority, NewRequestId());
}

bool HasEnded(v1::JobState state) {
  return state == v1::SUCCEEDED || state == v1::FAILED ||
         state == v1::CANCELLED;
}

bool HasEnded(v1::SweepState state) {
  return state == v1::SWEEP_DONE || state == v1::SWEEP_STOPPED;
}

std::unique_ptr<Client> NewClient(const ClientOptions& options) {
  return std::make_unique<GrpcClient>(options);
}

}  // namespace hearth::client
