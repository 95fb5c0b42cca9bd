#include "server/services/jobs_service.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "hearth/v1/jobs.grpc.pb.h"
#include "server/mapping/field_violations.h"
#include "server/mapping/request_checks.h"
#include "server/mapping/status_mapping.h"
#include "server/services/event_watch.h"

namespace hearth::server {
namespace {

constexpr uint32_t kDefaultTail = 100;
constexpr uint32_t kMaxTail = 1000;

class JobsService final
    : public v1::Jobs::WithCallbackMethod_WatchJob<v1::Jobs::Service> {
 public:
  JobsService(Admission& admission, JobStore& store, Scheduler& scheduler,
              EventHub& hub)
      : admission_(admission),
        store_(store),
        scheduler_(scheduler),
        hub_(hub) {}

  grpc::Status SubmitJob(grpc::ServerContext*,
                         const v1::SubmitJobRequest* request,
                         v1::Job* response) override {
    const absl::Status checked = CheckRequest(*request);
    if (!checked.ok()) return ToGrpcStatus(checked);
    return Reply(admission_.Submit(*request), response);
  }

  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest* request,
                      v1::Job* response) override {
    const absl::Status checked = CheckRequest(*request);
    if (!checked.ok()) return ToGrpcStatus(checked);
    return Reply(store_.Get(request->id()), response);
  }

  grpc::Status ListJobs(grpc::ServerContext*,
                        const v1::ListJobsRequest* request,
                        v1::ListJobsResponse* response) override {
    const absl::Status checked = CheckRequest(*request);
    if (!checked.ok()) return ToGrpcStatus(checked);
    JobQuery query;
    for (const int state : request->states()) {
      query.states.push_back(static_cast<v1::JobState>(state));
    }
    if (request->page_size() != 0) query.page_size = request->page_size();
    query.page_token = request->page_token();
    absl::StatusOr<JobPage> page = store_.List(query);
    if (!page.ok()) return ToGrpcStatus(page.status());
    for (v1::Job& job : page->jobs) response->add_jobs()->Swap(&job);
    response->set_next_page_token(page->next_page_token);
    return grpc::Status::OK;
  }

  grpc::Status TailJob(grpc::ServerContext*, const v1::TailJobRequest* request,
                       v1::TailJobResponse* response) override {
    const absl::Status checked = CheckRequest(*request);
    if (!checked.ok()) return ToGrpcStatus(checked);
    if (request->count() > kMaxTail) {
      FieldViolations violations;
      violations.Add("count", absl::StrCat("must be at most ", kMaxTail));
      return ToGrpcStatus(violations.ToStatus());
    }
    const uint32_t count =
        request->count() == 0 ? kDefaultTail : request->count();
    absl::StatusOr<std::vector<v1::JobEvent>> events =
        store_.ReadTail(request->id(), static_cast<int>(count));
    if (!events.ok()) return ToGrpcStatus(events.status());
    for (v1::JobEvent& event : *events) response->add_events()->Swap(&event);
    return grpc::Status::OK;
  }

  grpc::ServerWriteReactor<v1::JobEvent>* WatchJob(
      grpc::CallbackServerContext* context,
      const v1::WatchJobRequest* request) override {
    context->AddInitialMetadata("hearth-watch", "open");
    return StartWatch<EventBatch>(
        hub_, request->id(), request->from_sequence(), CheckRequest(*request),
        [this, id = request->id()](uint64_t from, int limit) {
          return store_.ReadEvents(id, from, limit);
        });
  }

  grpc::Status CancelJob(grpc::ServerContext*,
                         const v1::CancelJobRequest* request,
                         v1::Job* response) override {
    const absl::Status checked = CheckRequest(*request);
    if (!checked.ok()) return ToGrpcStatus(checked);
    const absl::Status status = scheduler_.Cancel(request->id());
    if (!status.ok()) return ToGrpcStatus(status);
    return Reply(store_.Get(request->id()), response);
  }

  grpc::Status ResumeJob(grpc::ServerContext*,
                         const v1::ResumeJobRequest* request,
                         v1::Job* response) override {
    const absl::Status checked = CheckRequest(*request);
    if (!checked.ok()) return ToGrpcStatus(checked);
    return Reply(admission_.Resume(*request), response);
  }

  grpc::Status DeleteJob(grpc::ServerContext*,
                         const v1::DeleteJobRequest* request,
                         google::protobuf::Empty*) override {
    const absl::Status checked = CheckRequest(*request);
    if (!checked.ok()) return ToGrpcStatus(checked);
    return ToGrpcStatus(admission_.DeleteJob(*request));
  }

 private:
  static grpc::Status Reply(absl::StatusOr<v1::Job> job, v1::Job* response) {
    if (!job.ok()) return ToGrpcStatus(job.status());
    response->Swap(&*job);
    return grpc::Status::OK;
  }

  Admission& admission_;
  JobStore& store_;
  Scheduler& scheduler_;
  EventHub& hub_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewJobsService(Admission& admission,
                                              JobStore& store,
                                              Scheduler& scheduler,
                                              EventHub& hub) {
  return std::make_unique<JobsService>(admission, store, scheduler, hub);
}

}  // namespace hearth::server
