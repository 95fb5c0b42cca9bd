#include "server/services/job_services.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "engine/io/file_system.h"
#include "hearth/v1/jobs.grpc.pb.h"
#include "hearth/v1/sweeps.grpc.pb.h"
#include "server/access/access_control.h"
#include "server/access/endpoints.h"
#include "server/cluster/cluster.h"
#include "server/feeds/feeds.h"
#include "server/jobs/admission.h"
#include "server/jobs/event_hub.h"
#include "server/jobs/model_files.h"
#include "server/mapping/report_mapping.h"
#include "server/mapping/request_checks.h"
#include "server/services/call_guard.h"
#include "server/services/transfers.h"
#include "server/storage/data_dir.h"
#include "server/storage/job_state.h"
#include "server/storage/job_store.h"
#include "server/storage/sweep_store.h"
#include "server/sweeps/sweep_manager.h"

namespace hearth::server {

namespace {

// Stream of stored events of a job or a sweep to a client. `Batch` has a vector
// of `events` with ascending sequence numbers, and says whether they are the
// last ones (`is_last`). Thread-safe as gRPC and the hub need.
//
//   1. the hub pumps it after its start, after each event of the job or sweep,
//      and when the last write is done or the client is gone;
//   2. a pump during a write returns; otherwise it writes the next event,
//      reading more events from the store when it has none left;
//   3. with nothing left to write, it finishes the call if the last event was
//      read or the daemon stops, and waits for the next pump otherwise.
//
// All of that happens on the hub's thread; gRPC's threads only set flags and
// wake the hub. gRPC calls OnDone after Finish, which is the last action of a
// pump; the watch lives until both gRPC and the hub have released it.
template <typename Batch>
class EventWatch final
    : public grpc::ServerWriteReactor<
          typename decltype(Batch::events)::value_type>,
      public Watcher,
      public std::enable_shared_from_this<EventWatch<Batch>> {
 public:
  using Event = typename decltype(Batch::events)::value_type;
  // Reads up to `limit` events from sequence number `from` on.
  using Reader = std::function<absl::StatusOr<Batch>(uint64_t from, int limit)>;

  // `check` is called before each event and does no I/O; the watch ends with
  // its error.
  EventWatch(EventHub& hub, std::string id, uint64_t from,
             std::function<absl::Status()> check, Reader reader)
      : hub_(hub),
        check_(std::move(check)),
        id_(std::move(id)),
        reader_(std::move(reader)),
        next_(std::max<uint64_t>(from, 1)) {}

  // Begins the watch; gRPC owns a share from now on.
  void Start() {
    self_ = this->shared_from_this();
    // Tells the client at once that the daemon has taken the call.
    this->StartSendInitialMetadata();
    hub_.Add(id_, self_);
  }

  bool Pump(bool stopping) override {
    if (is_writing_) return true;
    if (const absl::Status checked = check_(); !checked.ok()) {
      return Close(checked);
    }
    if (is_broken_) return Close(absl::CancelledError("the client is gone"));
    if (events_.empty()) {
      absl::StatusOr<Batch> batch = reader_(next_, kEventsPerRead);
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
    const std::shared_ptr<EventWatch> last_share = std::move(self_);
  }

 private:
  static constexpr int kEventsPerRead = 64;

  void WriteNext() {
    written_ = std::move(events_.front());
    events_.pop_front();
    next_ = written_.sequence() + 1;
    is_writing_ = true;
    this->StartWrite(&written_);
  }

  // Ends the call; returns false, for Pump to return.
  bool Close(const absl::Status& status) {
    this->Finish(ToGrpcStatus(status));
    return false;
  }

  EventHub& hub_;
  const std::function<absl::Status()> check_;
  const std::string id_;
  const Reader reader_;
  // Sequence number to read from.
  uint64_t next_;
  // Events read but not written.
  std::deque<Event> events_;
  Event written_;
  std::atomic<bool> is_writing_ = false;
  std::atomic<bool> is_broken_ = false;
  std::shared_ptr<EventWatch> self_;
};

// Starts a watch, which owns itself.
template <typename Batch>
EventWatch<Batch>* StartWatch(EventHub& hub, const std::string& id,
                              uint64_t from,
                              std::function<absl::Status()> check,
                              typename EventWatch<Batch>::Reader reader) {
  const auto watch = std::make_shared<EventWatch<Batch>>(
      hub, id, from, std::move(check), std::move(reader));
  watch->Start();
  return watch.get();
}

constexpr uint32_t kDefaultTail = 100;
constexpr uint32_t kMaxTail = 1000;

class JobsService final
    : public v1::Jobs::WithCallbackMethod_WatchJob<
          v1::Jobs::WithCallbackMethod_DownloadModel<v1::Jobs::Service>> {
 public:
  explicit JobsService(const JobsDependencies& deps)
      : deps_(deps),
        access_(deps.access),
        guard_(deps.access),
        admission_(deps.admission),
        store_(deps.store) {}

  grpc::Status SubmitJob(grpc::ServerContext* context,
                         const v1::SubmitJobRequest* request,
                         v1::Job* response) override {
    return guard_.Run(
        *context, *request, response,
        [&](const Caller& caller) -> absl::Status {
          HEARTH_RETURN_IF_ERROR(access_.CheckFolders(caller, request->spec()));
          if (request->spec().has_rank()) {
            return absl::InvalidArgumentError(
                "spec.rank: the machine that leads a job begins its ranks");
          }
          if (request->spec().train().has_adopted()) {
            return absl::InvalidArgumentError(
                "spec.train.adopted: is set by Jobs.AdoptJob alone");
          }
          return Reply(
              admission_.Submit(*request, {.owner = caller.name,
                                           .trace_id = caller.trace_id}),
              response);
        });
  }

  grpc::Status GetJob(grpc::ServerContext* context,
                      const v1::GetJobRequest* request,
                      v1::Job* response) override {
    return guard_.Run(
        *context, *request, response, [&](const Caller&) -> absl::Status {
          HEARTH_RETURN_IF_ERROR(Reply(store_.Get(request->id()), response));
          AddLiveParts(*response);
          return absl::OkStatus();
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
          for (v1::Job& job : page->jobs) {
            AddLiveParts(job);
            response->add_jobs()->Swap(&job);
          }
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
        deps_.hub, request->id(), request->from_sequence(),
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
        deps_.transfers, guard_, *context, *request,
        [this, id = request->job_id()]()
            -> absl::StatusOr<std::unique_ptr<ModelReader>> {
          HEARTH_ASSIGN_OR_RETURN(const v1::Job job, store_.Get(id));
          HEARTH_ASSIGN_OR_RETURN(const std::string folder,
                                  ModelFolder(deps_.data_dir, job));
          return ModelReader::Open(deps_.files, folder);
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

  grpc::Status AdoptJob(grpc::ServerContext* context,
                        const v1::AdoptJobRequest* request,
                        v1::Job* response) override {
    return guard_.Run(*context, *request, response, [&](const Caller& caller) {
      return Reply(admission_.Adopt(*request, {.owner = caller.name,
                                               .trace_id = caller.trace_id}),
                   response);
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

  // Adds what the store does not have: the machines of a running job, and the
  // report of a feed that has not ended.
  void AddLiveParts(v1::Job& job) const {
    if (deps_.cluster != nullptr) deps_.cluster->AddMachines(job);
    if (!job.spec().has_feed() || HasEnded(job.state())) return;
    const Feeds::Channels channels = deps_.feeds.Find(job.id());
    if (!channels.empty()) {
      SetUse(channels, *job.mutable_report()->mutable_feed());
    }
  }

  const JobsDependencies deps_;
  AccessControl& access_;
  const CallGuard guard_;
  Admission& admission_;
  JobStore& store_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewJobsService(const JobsDependencies& deps) {
  return std::make_unique<JobsService>(deps);
}

namespace {

class SweepsService final
    : public v1::Sweeps::WithCallbackMethod_WatchSweep<v1::Sweeps::Service> {
 public:
  SweepsService(AccessControl& access, SweepManager& sweeps, SweepStore& store,
                EventHub& hub)
      : guard_(access), sweeps_(sweeps), store_(store), hub_(hub) {}

  grpc::Status SubmitSweep(grpc::ServerContext* context,
                           const v1::SubmitSweepRequest* request,
                           v1::Sweep* response) override {
    return guard_.Run(
        *context, *request, response,
        [&](const Caller& caller) -> absl::Status {
          return Reply(sweeps_.Submit(*request, {.owner = caller.name,
                                                 .trace_id = caller.trace_id}),
                       response);
        });
  }

  grpc::Status GetSweep(grpc::ServerContext* context,
                        const v1::GetSweepRequest* request,
                        v1::Sweep* response) override {
    return guard_.Run(*context, *request, response,
                      [&](const Caller&) -> absl::Status {
                        return Reply(sweeps_.Get(request->id()), response);
                      });
  }

  grpc::Status ListSweeps(grpc::ServerContext* context,
                          const v1::ListSweepsRequest* request,
                          v1::ListSweepsResponse* response) override {
    return guard_.Run(
        *context, *request, response, [&](const Caller&) -> absl::Status {
          absl::StatusOr<std::vector<v1::Sweep>> sweeps = store_.List();
          if (!sweeps.ok()) return sweeps.status();
          for (v1::Sweep& sweep : *sweeps) response->add_sweeps()->Swap(&sweep);
          return absl::OkStatus();
        });
  }

  grpc::ServerWriteReactor<v1::SweepEvent>* WatchSweep(
      grpc::CallbackServerContext* context,
      const v1::WatchSweepRequest* request) override {
    context->AddInitialMetadata("hearth-watch", "open");
    return StartWatch<SweepEventBatch>(
        hub_, request->id(), request->from_sequence(),
        guard_.CheckOf(*context, *request),
        [this, id = request->id()](uint64_t from, int limit) {
          return store_.ReadEvents(id, from, limit);
        });
  }

  grpc::Status PauseSweep(grpc::ServerContext* context,
                          const v1::PauseSweepRequest* request,
                          v1::Sweep* response) override {
    return guard_.Run(*context, *request, response,
                      [&](const Caller&) -> absl::Status {
                        return Reply(sweeps_.Pause(request->id()), response);
                      });
  }

  grpc::Status ResumeSweep(grpc::ServerContext* context,
                           const v1::ResumeSweepRequest* request,
                           v1::Sweep* response) override {
    return guard_.Run(*context, *request, response,
                      [&](const Caller&) -> absl::Status {
                        return Reply(sweeps_.Resume(request->id()), response);
                      });
  }

  grpc::Status StopSweep(grpc::ServerContext* context,
                         const v1::StopSweepRequest* request,
                         v1::Sweep* response) override {
    return guard_.Run(*context, *request, response,
                      [&](const Caller&) -> absl::Status {
                        return Reply(sweeps_.Stop(request->id()), response);
                      });
  }

  grpc::Status DeleteSweep(grpc::ServerContext* context,
                           const v1::DeleteSweepRequest* request,
                           google::protobuf::Empty* response) override {
    return guard_.Run(*context, *request, response,
                      [&](const Caller&) -> absl::Status {
                        return sweeps_.Delete(*request);
                      });
  }

  grpc::Status AddTrial(grpc::ServerContext* context,
                        const v1::AddTrialRequest* request,
                        v1::Sweep* response) override {
    return guard_.Run(*context, *request, response,
                      [&](const Caller&) -> absl::Status {
                        return Reply(sweeps_.AddTrial(*request), response);
                      });
  }

  grpc::Status StopTrial(grpc::ServerContext* context,
                         const v1::StopTrialRequest* request,
                         v1::Sweep* response) override {
    return guard_.Run(*context, *request, response,
                      [&](const Caller&) -> absl::Status {
                        return Reply(sweeps_.StopTrial(*request), response);
                      });
  }

  grpc::Status ContinueTrial(grpc::ServerContext* context,
                             const v1::ContinueTrialRequest* request,
                             google::protobuf::Empty* response) override {
    return guard_.Run(*context, *request, response,
                      [&](const Caller&) -> absl::Status {
                        return sweeps_.ContinueTrial(*request);
                      });
  }

 private:
  static absl::Status Reply(absl::StatusOr<v1::Sweep> sweep,
                            v1::Sweep* response) {
    if (!sweep.ok()) return sweep.status();
    response->Swap(&*sweep);
    return absl::OkStatus();
  }

  const CallGuard guard_;
  SweepManager& sweeps_;
  SweepStore& store_;
  EventHub& hub_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewSweepsService(AccessControl& access,
                                                SweepManager& sweeps,
                                                SweepStore& store,
                                                EventHub& hub) {
  return std::make_unique<SweepsService>(access, sweeps, store, hub);
}

}  // namespace hearth::server
