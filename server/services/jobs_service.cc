#include "server/services/jobs_service.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "hearth/v1/jobs.grpc.pb.h"
#include "server/mapping/field_violations.h"
#include "server/mapping/request_checks.h"
#include "server/mapping/status_mapping.h"

namespace hearth::server {
namespace {

constexpr uint32_t kDefaultTail = 100;
constexpr uint32_t kMaxTail = 1000;

// One watch:
//   1. the hub pumps it after its start, after each event of the job, and when
//      the last write is done or the client is gone;
//   2. a pump that finds a write in progress leaves; otherwise it writes the
//      next event, reading more from the store when it has none left;
//   3. with nothing left to write it finishes the call if the job has ended or
//      the daemon stops, and waits for the next pump otherwise.
// All of that happens on the hub's thread; gRPC's threads only set flags and
// wake the hub. gRPC calls OnDone after Finish, which is the last thing a pump
// does; the watch lives until both gRPC and the hub have let it go.
class Watch final : public grpc::ServerWriteReactor<v1::JobEvent>,
                    public Watcher,
                    public std::enable_shared_from_this<Watch> {
 public:
  Watch(JobStore& store, EventHub& hub, const v1::WatchJobRequest& request)
      : store_(store),
        hub_(hub),
        checked_(CheckRequest(request)),
        id_(request.id()),
        next_(std::max<uint64_t>(request.from_sequence(), 1)) {}

  // Begins the watch; gRPC owns a share from here on.
  void Start() {
    self_ = shared_from_this();
    // Tells the client at once that somebody is there.
    StartSendInitialMetadata();
    hub_.Add(id_, self_);
  }

  bool Pump(bool stopping) override {
    if (is_writing_) return true;
    if (!checked_.ok()) return Close(checked_);
    if (is_broken_) return Close(absl::CancelledError("the client is gone"));
    if (events_.empty()) {
      absl::StatusOr<EventBatch> batch =
          store_.ReadEvents(id_, next_, kEventsPerRead);
      if (!batch.ok()) return Close(batch.status());
      events_.assign(std::make_move_iterator(batch->events.begin()),
                     std::make_move_iterator(batch->events.end()));
      if (events_.empty() && batch->is_last) return Close(absl::OkStatus());
    }
    if (!events_.empty()) {
      WriteNext();
    } else if (stopping) {
      return Close(absl::UnavailableError(absl::StrCat(
          "hearthd is stopping; resume the watch from event ", next_)));
    }
    return true;
  }

  void OnWriteDone(bool ok) override {
    if (!ok) is_broken_ = true;
    is_writing_ = false;
    hub_.Wake(this);
  }

  void OnCancel() override {
    is_broken_ = true;
    hub_.Wake(this);
  }

  void OnDone() override {
    const std::shared_ptr<Watch> last_share = std::move(self_);
  }

 private:
  static constexpr int kEventsPerRead = 64;

  void WriteNext() {
    written_ = std::move(events_.front());
    events_.pop_front();
    next_ = written_.sequence() + 1;
    is_writing_ = true;
    StartWrite(&written_);
  }

  // Ends the call; false, for Pump to return.
  bool Close(const absl::Status& status) {
    Finish(ToGrpcStatus(status));
    return false;
  }

  JobStore& store_;
  EventHub& hub_;
  const absl::Status checked_;
  const std::string id_;
  // Sequence number to read from.
  uint64_t next_;
  // Read but not written.
  std::deque<v1::JobEvent> events_;
  v1::JobEvent written_;
  std::atomic<bool> is_writing_ = false;
  std::atomic<bool> is_broken_ = false;
  std::shared_ptr<Watch> self_;
};

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
    const auto watch = std::make_shared<Watch>(store_, hub_, *request);
    watch->Start();
    return watch.get();
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
