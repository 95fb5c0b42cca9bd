#include "server/services/sweeps_service.h"

#include <cstdint>
#include <string>
#include <vector>

#include "hearth/v1/sweeps.grpc.pb.h"
#include "server/services/call_guard.h"
#include "server/services/event_watch.h"

namespace hearth::server {
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
