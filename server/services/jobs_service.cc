#include "server/services/jobs_service.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "hearth/v1/jobs.grpc.pb.h"
#include "server/jobs/model_folder.h"
#include "server/jobs/model_reader.h"
#include "server/mapping/field_violations.h"
#include "server/services/call_guard.h"
#include "server/services/event_watch.h"
#include "server/services/model_stream.h"

namespace hearth::server {
namespace {

constexpr uint32_t kDefaultTail = 100;
constexpr uint32_t kMaxTail = 1000;

class JobsService final
    : public v1::Jobs::WithCallbackMethod_WatchJob<
          v1::Jobs::WithCallbackMethod_DownloadModel<v1::Jobs::Service>> {
 public:
  explicit JobsService(const JobsParts& parts)
      : parts_(parts),
        access_(parts.access),
        guard_(parts.access),
        admission_(parts.admission),
        store_(parts.store) {}

  grpc::Status SubmitJob(grpc::ServerContext* context,
                         const v1::SubmitJobRequest* request,
                         v1::Job* response) override {
    return guard_.Run(
        *context, *request, response,
        [&](const Caller& caller) -> absl::Status {
          HEARTH_RETURN_IF_ERROR(access_.CheckFolders(caller, request->spec()));
          return Reply(
              admission_.Submit(*request, {.owner = caller.name,
                                           .trace_id = caller.trace_id}),
              response);
        });
  }

  grpc::Status GetJob(grpc::ServerContext* context,
                      const v1::GetJobRequest* request,
                      v1::Job* response) override {
    return guard_.Run(*context, *request, response,
                      [&](const Caller&) -> absl::Status {
                        return Reply(store_.Get(request->id()), response);
                      });
  }

  grpc::Status ListJobs(grpc::ServerContext* context,
                        const v1::ListJobsRequest* request,
                        v1::ListJobsResponse* response) override {
    return guard_.Run(
        *context, *request, response, [&](const Caller&) -> absl::Status {
          JobQuery query;
          for (const int state : request->states()) {
            query.states.push_back(static_cast<v1::JobState>(state));
          }
          if (request->page_size() != 0) query.page_size = request->page_size();
          query.page_token = request->page_token();
          absl::StatusOr<JobPage> page = store_.List(query);
          if (!page.ok()) return page.status();
          for (v1::Job& job : page->jobs) response->add_jobs()->Swap(&job);
          response->set_next_page_token(page->next_page_token);
          return absl::OkStatus();
        });
  }

  grpc::Status TailJob(grpc::ServerContext* context,
                       const v1::TailJobRequest* request,
                       v1::TailJobResponse* response) override {
    return guard_.Run(
        *context, *request, response, [&](const Caller&) -> absl::Status {
          if (request->count() > kMaxTail) {
            FieldViolations violations;
            violations.Add("count", absl::StrCat("must be at most ", kMaxTail));
            return violations.ToStatus();
          }
          const uint32_t count =
              request->count() == 0 ? kDefaultTail : request->count();
          absl::StatusOr<std::vector<v1::JobEvent>> events =
              store_.ReadTail(request->id(), static_cast<int>(count));
          if (!events.ok()) return events.status();
          for (v1::JobEvent& event : *events)
            response->add_events()->Swap(&event);
          return absl::OkStatus();
        });
  }

  grpc::ServerWriteReactor<v1::JobEvent>* WatchJob(
      grpc::CallbackServerContext* context,
      const v1::WatchJobRequest* request) override {
    context->AddInitialMetadata("hearth-watch", "open");
    return StartWatch<EventBatch>(
        parts_.hub, request->id(), request->from_sequence(),
        guard_.CheckOf(*context, *request),
        [this, id = request->id()](uint64_t from, int limit) {
          return store_.ReadEvents(id, from, limit);
        });
  }

  grpc::ServerWriteReactor<v1::ModelChunk>* DownloadModel(
      grpc::CallbackServerContext* context,
      const v1::DownloadModelRequest* request) override {
    context->AddInitialMetadata("hearth-watch", "open");
    return StartModelStream(
        parts_.transfers, guard_, *context, *request,
        [this, id = request->job_id()]()
            -> absl::StatusOr<std::unique_ptr<ModelReader>> {
          HEARTH_ASSIGN_OR_RETURN(const v1::Job job, store_.Get(id));
          HEARTH_ASSIGN_OR_RETURN(const std::string folder,
                                  ModelFolder(parts_.data_dir, job));
          return ModelReader::Open(parts_.files, folder);
        });
  }

  grpc::Status CancelJob(grpc::ServerContext* context,
                         const v1::CancelJobRequest* request,
                         v1::Job* response) override {
    return guard_.Run(
        *context, *request, response, [&](const Caller&) -> absl::Status {
          HEARTH_RETURN_IF_ERROR(admission_.Cancel(request->id()));
          return Reply(store_.Get(request->id()), response);
        });
  }

  grpc::Status ResumeJob(grpc::ServerContext* context,
                         const v1::ResumeJobRequest* request,
                         v1::Job* response) override {
    return guard_.Run(
        *context, *request, response,
        [&](const Caller& caller) -> absl::Status {
          v1::JobSpec spec = request->spec();
          if (!request->has_spec()) {
            HEARTH_ASSIGN_OR_RETURN(const v1::Job job,
                                    store_.Get(request->id()));
            spec = job.spec();
          }
          HEARTH_RETURN_IF_ERROR(access_.CheckFolders(caller, spec));
          return Reply(admission_.Resume(*request), response);
        });
  }

  grpc::Status DeleteJob(grpc::ServerContext* context,
                         const v1::DeleteJobRequest* request,
                         google::protobuf::Empty* response) override {
    return guard_.Run(*context, *request, response,
                      [&](const Caller&) -> absl::Status {
                        return admission_.DeleteJob(*request);
                      });
  }

 private:
  static absl::Status Reply(absl::StatusOr<v1::Job> job, v1::Job* response) {
    if (!job.ok()) return job.status();
    response->Swap(&*job);
    return absl::OkStatus();
  }

  const JobsParts parts_;
  AccessControl& access_;
  const CallGuard guard_;
  Admission& admission_;
  JobStore& store_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewJobsService(const JobsParts& parts) {
  return std::make_unique<JobsService>(parts);
}

}  // namespace hearth::server
