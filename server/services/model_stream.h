#ifndef HEARTH_SERVER_SERVICES_MODEL_STREAM_H_
#define HEARTH_SERVER_SERVICES_MODEL_STREAM_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "hearth/v1/jobs.pb.h"
#include "server/jobs/model_reader.h"
#include "server/services/call_guard.h"
#include "server/services/transfers.h"

namespace hearth::server {

/// Starts the stream of a model to a client, which owns itself. `transfers`,
/// on whose thread all its files are read, and `guard` must outlive the gRPC
/// server. `open` opens the model, once the caller is known to be allowed to
/// have it.
grpc::ServerWriteReactor<v1::ModelChunk>* StartModelStream(
    Transfers& transfers, const CallGuard& guard,
    grpc::CallbackServerContext& context,
    const v1::DownloadModelRequest& request,
    std::function<absl::StatusOr<std::unique_ptr<ModelReader>>()> open);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_SERVICES_MODEL_STREAM_H_
