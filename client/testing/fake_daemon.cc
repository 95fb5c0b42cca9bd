#include "client/testing/fake_daemon.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "hearth/v1/admin.grpc.pb.h"
#include "hearth/v1/datasets.grpc.pb.h"
#include "hearth/v1/jobs.grpc.pb.h"
#include "hearth/v1/plans.grpc.pb.h"

namespace hearth::client {

namespace {

grpc::Status NotFound(const std::string& what) {
  return grpc::Status(grpc::StatusCode::NOT_FOUND, what);
}

bool Ended(v1::JobState state) {
  return state == v1::SUCCEEDED || state == v1::FAILED ||
         state == v1::CANCELLED;
}

// Waits until the call is cancelled; gRPC's synchronous services have to poll.
void WaitUntilCancelled(const grpc::ServerContext& context) {
  absl::Notification never;
  while (!context.IsCancelled()) {
    never.WaitForNotificationWithTimeout(absl::Milliseconds(5));
  }
}

}  // namespace

class FakeDaemon::Services final : public v1::Jobs::Service,
                                   public v1::Datasets::Service,
                                   public v1::Plans::Service,
                                   public v1::Admin::Service {
 public:
  const std::string& address() const { return address_; }

  void Start() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(address_, grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterService(static_cast<v1::Jobs::Service*>(this));
    builder.RegisterService(static_cast<v1::Datasets::Service*>(this));
    builder.RegisterService(static_cast<v1::Plans::Service*>(this));
    builder.RegisterService(static_cast<v1::Admin::Service*>(this));
    server_ = builder.BuildAndStart();
    address_ = absl::StrCat("127.0.0.1:", port);
  }

  void Stop() {
    if (server_ == nullptr) return;
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
    server_ = nullptr;
  }

  void AddJob(const v1::Job& job, std::vector<v1::JobEvent> events,
              std::vector<uint64_t> breaks) {
    absl::MutexLock lock(&mutex_);
    uint64_t sequence = 0;
    for (v1::JobEvent& event : events) event.set_sequence(++sequence);
    KnownJob& known = jobs_[job.id()];
    known = {job, std::move(events), std::move(breaks)};
    known.job.set_last_sequence(sequence);
  }

  void AddDataset(const v1::Dataset& dataset) {
    absl::MutexLock lock(&mutex_);
    datasets_[dataset.name()] = dataset;
  }

  void AddUpload(const v1::Upload& upload) {
    absl::MutexLock lock(&mutex_);
    uploads_[upload.id()] = upload;
  }

  void AddPlan(const v1::Plan& plan) {
    absl::MutexLock lock(&mutex_);
    plans_[plan.name()] = plan;
  }

  void OnSubmit(std::function<absl::Status(v1::Job*)> on_submit) {
    absl::MutexLock lock(&mutex_);
    on_submit_ = std::move(on_submit);
  }

  void LoseAnswers(int count) {
    absl::MutexLock lock(&mutex_);
    lost_answers_ = count;
  }

  void OnWaitingWatch(std::function<void(const std::string&)> on_waiting) {
    absl::MutexLock lock(&mutex_);
    on_waiting_ = std::move(on_waiting);
  }

  std::vector<v1::SubmitJobRequest> submissions() const {
    absl::MutexLock lock(&mutex_);
    return submissions_;
  }

  std::vector<std::string> trace_parents() const {
    absl::MutexLock lock(&mutex_);
    return trace_parents_;
  }

  std::vector<uint64_t> watches() const {
    absl::MutexLock lock(&mutex_);
    return watches_;
  }

  std::vector<std::string> cancelled() const {
    absl::MutexLock lock(&mutex_);
    return cancelled_;
  }

  std::vector<v1::ResumeJobRequest> resumptions() const {
    absl::MutexLock lock(&mutex_);
    return resumptions_;
  }

  grpc::Status SubmitJob(grpc::ServerContext* context,
                         const v1::SubmitJobRequest* request,
                         v1::Job* job) override {
    bool answer_is_lost = false;
    {
      absl::MutexLock lock(&mutex_);
      submissions_.push_back(*request);
      const auto trace = context->client_metadata().find("traceparent");
      trace_parents_.push_back(
          trace == context->client_metadata().end()
              ? ""
              : std::string(trace->second.data(), trace->second.size()));
      std::string& id = ids_[request->request_id()];
      if (id.empty()) {
        id = absl::StrCat("train-", ids_.size());
        const grpc::Status status = Accept(id, request->spec());
        if (!status.ok()) return status;
      }
      *job = jobs_[id].job;
      answer_is_lost = lost_answers_ > 0;
      if (answer_is_lost) --lost_answers_;
    }
    // Lets the client's deadline pass, as when a connection dies silently.
    if (answer_is_lost) WaitUntilCancelled(*context);
    return grpc::Status::OK;
  }

  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest* request,
                      v1::Job* job) override {
    absl::MutexLock lock(&mutex_);
    const auto known = jobs_.find(request->id());
    if (known == jobs_.end()) return NotFound("no job " + request->id());
    *job = known->second.job;
    return grpc::Status::OK;
  }

  grpc::Status ListJobs(grpc::ServerContext*,
                        const v1::ListJobsRequest* request,
                        v1::ListJobsResponse* response) override {
    absl::MutexLock lock(&mutex_);
    // Two jobs a page, whatever the request asks for, so that clients turn
    // pages.
    auto job = jobs_.upper_bound(request->page_token());
    for (; job != jobs_.end() && response->jobs_size() < 2; ++job) {
      const auto& states = request->states();
      if (!states.empty() &&
          std::find(states.begin(), states.end(), job->second.job.state()) ==
              states.end()) {
        continue;
      }
      *response->add_jobs() = job->second.job;
    }
    if (job != jobs_.end()) {
      response->set_next_page_token(std::prev(job)->first);
    }
    return grpc::Status::OK;
  }

  grpc::Status WatchJob(grpc::ServerContext* context,
                        const v1::WatchJobRequest* request,
                        grpc::ServerWriter<v1::JobEvent>* writer) override {
    std::vector<v1::JobEvent> events;
    std::optional<uint64_t> break_after;
    v1::JobState state;
    std::function<void(const std::string&)> on_waiting;
    {
      absl::MutexLock lock(&mutex_);
      watches_.push_back(request->from_sequence());
      const auto known = jobs_.find(request->id());
      if (known == jobs_.end()) return NotFound("no job " + request->id());
      events = known->second.events;
      state = known->second.job.state();
      on_waiting = on_waiting_;
      std::vector<uint64_t>& breaks = known->second.breaks;
      if (!breaks.empty()) {
        break_after = breaks.front();
        breaks.erase(breaks.begin());
      }
    }
    for (const v1::JobEvent& event : events) {
      if (event.sequence() >= request->from_sequence()) writer->Write(event);
      if (event.sequence() == break_after) {
        return grpc::Status(grpc::StatusCode::UNAVAILABLE, "broken on purpose");
      }
    }
    if (Ended(state)) return grpc::Status::OK;
    if (on_waiting) on_waiting(request->id());
    WaitUntilCancelled(*context);
    return grpc::Status::CANCELLED;
  }

  grpc::Status CancelJob(grpc::ServerContext* context,
                         const v1::CancelJobRequest* request,
                         v1::Job* job) override {
    {
      absl::MutexLock lock(&mutex_);
      cancelled_.push_back(request->id());
    }
    v1::GetJobRequest get;
    get.set_id(request->id());
    return GetJob(context, &get, job);
  }

  grpc::Status ResumeJob(grpc::ServerContext* context,
                         const v1::ResumeJobRequest* request,
                         v1::Job* job) override {
    {
      absl::MutexLock lock(&mutex_);
      resumptions_.push_back(*request);
    }
    v1::GetJobRequest get;
    get.set_id(request->id());
    return GetJob(context, &get, job);
  }

  grpc::Status DeleteJob(grpc::ServerContext*,
                         const v1::DeleteJobRequest* request,
                         google::protobuf::Empty*) override {
    absl::MutexLock lock(&mutex_);
    return jobs_.erase(request->id()) == 1
               ? grpc::Status::OK
               : NotFound("no job " + request->id());
  }

  grpc::Status ListDatasets(grpc::ServerContext*,
                            const v1::ListDatasetsRequest*,
                            v1::ListDatasetsResponse* response) override {
    absl::MutexLock lock(&mutex_);
    for (const auto& [name, dataset] : datasets_) {
      *response->add_datasets() = dataset;
    }
    return grpc::Status::OK;
  }

  grpc::Status GetDataset(grpc::ServerContext*,
                          const v1::GetDatasetRequest* request,
                          v1::Dataset* dataset) override {
    absl::MutexLock lock(&mutex_);
    const auto known = datasets_.find(request->name());
    if (known == datasets_.end()) return NotFound("no dataset");
    *dataset = known->second;
    return grpc::Status::OK;
  }

  grpc::Status DeleteDataset(grpc::ServerContext*,
                             const v1::DeleteDatasetRequest* request,
                             google::protobuf::Empty*) override {
    absl::MutexLock lock(&mutex_);
    return datasets_.erase(request->name()) == 1 ? grpc::Status::OK
                                                 : NotFound("no dataset");
  }

  grpc::Status ListUploads(grpc::ServerContext*, const v1::ListUploadsRequest*,
                           v1::ListUploadsResponse* response) override {
    absl::MutexLock lock(&mutex_);
    for (const auto& [id, upload] : uploads_) *response->add_uploads() = upload;
    return grpc::Status::OK;
  }

  grpc::Status DeleteUpload(grpc::ServerContext*,
                            const v1::DeleteUploadRequest* request,
                            google::protobuf::Empty*) override {
    absl::MutexLock lock(&mutex_);
    return uploads_.erase(request->id()) == 1 ? grpc::Status::OK
                                              : NotFound("no upload");
  }

  grpc::Status ListPlans(grpc::ServerContext*, const v1::ListPlansRequest*,
                         v1::ListPlansResponse* response) override {
    absl::MutexLock lock(&mutex_);
    for (const auto& [name, plan] : plans_) *response->add_plans() = plan;
    return grpc::Status::OK;
  }

  grpc::Status GetPlan(grpc::ServerContext*, const v1::GetPlanRequest* request,
                       v1::Plan* plan) override {
    absl::MutexLock lock(&mutex_);
    const auto known = plans_.find(request->name());
    if (known == plans_.end()) return NotFound("no plan");
    *plan = known->second;
    return grpc::Status::OK;
  }

  grpc::Status DeletePlan(grpc::ServerContext*,
                          const v1::DeletePlanRequest* request,
                          google::protobuf::Empty*) override {
    absl::MutexLock lock(&mutex_);
    return plans_.erase(request->name()) == 1 ? grpc::Status::OK
                                              : NotFound("no plan");
  }

  grpc::Status GetStatus(grpc::ServerContext*, const v1::GetStatusRequest*,
                         v1::Status* status) override {
    status->set_version("1.2.3");
    status->set_pid(42);
    return grpc::Status::OK;
  }

 private:
  struct KnownJob {
    v1::Job job;
    std::vector<v1::JobEvent> events;
    std::vector<uint64_t> breaks;
  };

  grpc::Status Accept(const std::string& id, const v1::JobSpec& spec)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    KnownJob& known = jobs_[id];
    known.job.set_id(id);
    known.job.set_state(v1::SUCCEEDED);
    *known.job.mutable_spec() = spec;
    if (on_submit_) {
      const absl::Status status = on_submit_(&known.job);
      if (!status.ok()) {
        return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                            std::string(status.message()));
      }
    }
    known.events = {StateEvent(v1::RUNNING), StateEvent(known.job.state())};
    for (size_t i = 0; i < known.events.size(); ++i) {
      known.events[i].set_sequence(i + 1);
    }
    return grpc::Status::OK;
  }

  std::string address_ = "127.0.0.1:0";
  std::unique_ptr<grpc::Server> server_;
  mutable absl::Mutex mutex_;
  std::map<std::string, KnownJob> jobs_ ABSL_GUARDED_BY(mutex_);
  // Ids of jobs by request id.
  std::map<std::string, std::string> ids_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, v1::Dataset> datasets_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, v1::Upload> uploads_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, v1::Plan> plans_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::SubmitJobRequest> submissions_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> trace_parents_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> watches_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> cancelled_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::ResumeJobRequest> resumptions_ ABSL_GUARDED_BY(mutex_);
  std::function<absl::Status(v1::Job*)> on_submit_ ABSL_GUARDED_BY(mutex_);
  std::function<void(const std::string&)> on_waiting_ ABSL_GUARDED_BY(mutex_);
  int lost_answers_ ABSL_GUARDED_BY(mutex_) = 0;
};

FakeDaemon::FakeDaemon() : services_(std::make_unique<Services>()) { Start(); }

FakeDaemon::~FakeDaemon() { Stop(); }

const std::string& FakeDaemon::address() const { return services_->address(); }

void FakeDaemon::Start() { services_->Start(); }

void FakeDaemon::Stop() { services_->Stop(); }

void FakeDaemon::AddJob(const v1::Job& job, std::vector<v1::JobEvent> events,
                        std::vector<uint64_t> breaks) {
  services_->AddJob(job, std::move(events), std::move(breaks));
}

void FakeDaemon::AddDataset(const v1::Dataset& dataset) {
  services_->AddDataset(dataset);
}

void FakeDaemon::AddUpload(const v1::Upload& upload) {
  services_->AddUpload(upload);
}

void FakeDaemon::AddPlan(const v1::Plan& plan) { services_->AddPlan(plan); }

void FakeDaemon::OnSubmit(std::function<absl::Status(v1::Job*)> on_submit) {
  services_->OnSubmit(std::move(on_submit));
}

void FakeDaemon::LoseAnswers(int count) { services_->LoseAnswers(count); }

void FakeDaemon::OnWaitingWatch(
    std::function<void(const std::string&)> on_waiting) {
  services_->OnWaitingWatch(std::move(on_waiting));
}

std::vector<v1::SubmitJobRequest> FakeDaemon::submissions() const {
  return services_->submissions();
}

std::vector<std::string> FakeDaemon::trace_parents() const {
  return services_->trace_parents();
}

std::vector<uint64_t> FakeDaemon::watches() const {
  return services_->watches();
}

std::vector<std::string> FakeDaemon::cancelled() const {
  return services_->cancelled();
}

std::vector<v1::ResumeJobRequest> FakeDaemon::resumptions() const {
  return services_->resumptions();
}

v1::JobEvent StateEvent(v1::JobState state) {
  v1::JobEvent event;
  event.mutable_state()->set_state(state);
  return event;
}

v1::JobEvent LogEvent(const std::string& text) {
  v1::JobEvent event;
  event.mutable_log()->set_text(text);
  return event;
}

}  // namespace hearth::client
