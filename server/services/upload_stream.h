#ifndef HEARTH_SERVER_SERVICES_UPLOAD_STREAM_H_
#define HEARTH_SERVER_SERVICES_UPLOAD_STREAM_H_

#include <grpcpp/grpcpp.h>

#include "hearth/v1/datasets.pb.h"
#include "server/services/call_guard.h"
#include "server/services/transfers.h"
#include "server/storage/upload_staging.h"

namespace hearth::server {

/// Starts the stream of an upload's bytes from a client, which owns itself.
/// `transfers`, on whose thread all its files are written, `guard` and
/// `uploads` must outlive the gRPC server. `response` gets the upload as it
/// stands at the end of the stream.
grpc::ServerReadReactor<v1::UploadChunk>* StartUploadStream(
    Transfers& transfers, const CallGuard& guard, UploadStaging& uploads,
    grpc::CallbackServerContext& context, v1::Upload* response);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_SERVICES_UPLOAD_STREAM_H_
