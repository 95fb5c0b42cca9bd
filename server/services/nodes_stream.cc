#include "server/services/nodes_stream.h"

#include <atomic>
#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/status.h"
#include "server/services/incoming_stream.h"

namespace hearth::server {
namespace {

// Nodes of a feed. At the end the second thread waits for the disk.
class NodesStream final : public IncomingStream<v1::PutNodesRequest> {
 public:
  NodesStream(Transfers& transfers, const CallGuard& guard,
              NodeFiles& node_files, grpc::CallbackServerContext& context,
              v1::PutNodesResponse* response)
      : IncomingStream(transfers, guard, context, response, /*advice=*/""),
        node_files_(node_files) {}

 private:
  absl::StatusOr<bool> Step(bool stopping) override {
    absl::StatusOr<bool> goes_on = false;
    if (!is_finished_) {
      goes_on = IncomingStream::Step(stopping);
    } else if (!finished_.ok()) {
      goes_on = finished_;
    }
    if (!goes_on.ok() || !*goes_on) incoming_ = nullptr;
    return goes_on;
  }

  absl::Status Enter() override {
    HEARTH_ASSIGN_OR_RETURN(
        incoming_, node_files_.Begin(message().id(), message().sha256()));
    return absl::OkStatus();
  }

  absl::StatusOr<bool> Take() override {
    // The job has the nodes.
    if (incoming_ == nullptr) return false;
    HEARTH_RETURN_IF_ERROR(CheckId());
    HEARTH_RETURN_IF_ERROR(incoming_->Append(
        {reinterpret_cast<const std::byte*>(message().ids().data()),
         message().ids().size()}));
    ReadNext();
    return true;
  }

  absl::StatusOr<bool> End() override {
    DoSlowly([this] {
      finished_ = incoming_->Finish();
      is_finished_ = true;
    });
    return true;
  }

  NodeFiles& node_files_;
  std::unique_ptr<NodeFiles::Incoming> incoming_;
  // Belongs to the second thread, with `incoming_`, until `is_finished_`.
  absl::Status finished_;
  std::atomic<bool> is_finished_ = false;
};

}  // namespace

grpc::ServerReadReactor<v1::PutNodesRequest>* StartNodesStream(
    Transfers& transfers, const CallGuard& guard, NodeFiles& node_files,
    grpc::CallbackServerContext& context, v1::PutNodesResponse* response) {
  const auto stream = std::make_shared<NodesStream>(
      transfers, guard, node_files, context, response);
  stream->Start();
  return stream.get();
}

}  // namespace hearth::server
