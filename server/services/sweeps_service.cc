#include "server/services/sweeps_service.h"

#include <cstdint>
#include <string>
#include <vector>

#include "hearth/v1/sweeps.grpc.pb.h"
#include "server/mapping/request_checks.h"
#include "server/mapping/status_mapping.h"
#include "server/services/event_watch.h"

namespace hearth::server {
namespace {

class SweepsService final
    : public v1::Sweeps::WithCallbackMethod_WatchSweep<v1::Sweeps::Service> {
 public:
  SweepsService(SweepManager& sweeps, SweepStore& store, EventHub& hub)
      : sweeps_(sweeps), store_(store), hub_(hub) {}

  grpc::Status SubmitSweep(grpc::ServerContext*,
                           const v1::SubmitSweepRequest* request,
                           v1::Sweep* response) override {
    const absl::Status checked = CheckRequest(*request);
    if (!checked.ok()) return ToGrpcStatus(checked);
    return Reply(sweeps_.Submit(*request), response);
  }

  grpc::Status GetSweep(grpc::ServerContext*,
                        const v1::GetSweepRequest* request,
                        v1::Sweep* response) override {
    const absl::Status checked = CheckRequest(*request);
    if (!checked.ok()) return ToGrpcStatus(checked);
    return Reply(sweeps_.Get(request->id()), response);
  }

  grpc::Status ListSweeps(grpc::ServerContext*,
                          const v1::ListSweepsRequest* request,
                          v1::ListSweepsResponse* response) override {
    const absl::Status checked = CheckRequest(*request);
    if (!checked.ok()) return ToGrpcStatus(checked);
    absl::StatusOr<std::vector<v1::Sweep>> sweeps = store_.List();
    if (!sweeps.ok()) return ToGrpcStatus(sweeps.status());
    for (v1::Sweep& sweep : *sweeps) response->add_sweeps()->Swap(&sweep);
    return grpc::Status::OK;
  }

  grpc::ServerWriteReactor<v1::SweepEvent>* WatchSweep(
      grpc::CallbackServerContext* context,
      const v1::WatchSweepRequest* request) override {
    context->AddInitialMetadata("hearth-watch", "open");
    return StartWatch<SweepEventBatch>(
        hub_, request->id(), request->from_sequence(), CheckRequest(*request),
        [this, id = request->id()](uint64_t from, int limit) {
          return store_.ReadEvents(id, from, limit);
        });
  }

  grpc::Status PauseSweep(grpc::ServerContext*,
                          const v1::PauseSweepRequest* request,
                          v1::Sweep* response) override {
    const absl::Status checked = CheckRequest(*request);
    if (!checked.ok()) return ToGrpcStatus(checked);
    return Reply(sweeps_.Pause(request->id()), response);
  }

  grpc::Status ResumeSweep(grpc::ServerContext*,
                           const v1::ResumeSweepRequest* request,
                           v1::Sweep* response) override {
    const absl::Status checked = CheckRequest(*request);
    if (!checked.ok()) return ToGrpcStatus(checked);
    return Reply(sweeps_.Resume(request->id()), response);
  }

  grpc::Status StopSweep(grpc::ServerContext*,
                         const v1::StopSweepRequest* request,
                         v1::Sweep* response) override {
    const absl::Status checked = CheckRequest(*request);
    if (!checked.ok()) return ToGrpcStatus(checked);
    return Reply(sweeps_.Stop(request->id()), response);
  }

  grpc::Status DeleteSweep(grpc::ServerContext*,
                           const v1::DeleteSweepRequest* request,
                           google::protobuf::Empty*) override {
    const absl::Status checked = CheckRequest(*request);
    if (!checked.ok()) return ToGrpcStatus(checked);
    return ToGrpcStatus(sweeps_.Delete(*request));
  }

  grpc::Status AddTrial(grpc::ServerContext*,
                        const v1::AddTrialRequest* request,
                        v1::Sweep* response) override {
    const absl::Status checked = CheckRequest(*request);
    if (!checked.ok()) return ToGrpcStatus(checked);
    return Reply(sweeps_.AddTrial(*request), response);
  }

  grpc::Status StopTrial(grpc::ServerContext*,
                         const v1::StopTrialRequest* request,
                         v1::Sweep* response) override {
    const absl::Status checked = CheckRequest(*request);
    if (!checked.ok()) return ToGrpcStatus(checked);
    return Reply(sweeps_.StopTrial(*request), response);
  }

  grpc::Status ContinueTrial(grpc::ServerContext*,
                             const v1::ContinueTrialRequest* request,
                             google::protobuf::Empty*) override {
    const absl::Status checked = CheckRequest(*request);
    if (!checked.ok()) return ToGrpcStatus(checked);
    return ToGrpcStatus(sweeps_.ContinueTrial(*request));
  }

 private:
  static grpc::Status Reply(absl::StatusOr<v1::Sweep> sweep,
                            v1::Sweep* response) {
    if (!sweep.ok()) return ToGrpcStatus(sweep.status());
    response->Swap(&*sweep);
    return grpc::Status::OK;
  }

  SweepManager& sweeps_;
  SweepStore& store_;
  EventHub& hub_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewSweepsService(SweepManager& sweeps,
                                                SweepStore& store,
                                                EventHub& hub) {
  return std::make_unique<SweepsService>(sweeps, store, hub);
}

}  // namespace hearth::server
