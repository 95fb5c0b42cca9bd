#ifndef HEARTH_CLIENT_CHANNEL_H_
#define HEARTH_CLIENT_CHANNEL_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/hearth_client.h"

namespace hearth::client {

/// A channel to the daemon that `options` name, encrypted if they name an
/// authority (never over a Unix socket, which nobody else reads); made for a
/// daemon that restarts: it tries again within a second, and gives up a
/// connection on which the daemon stays silent while a call is in progress.
std::shared_ptr<grpc::Channel> NewChannel(const ClientOptions& options);

/// Waits a moment, 0.2 s at most, for a lost connection to be there again; at
/// once if it is not lost. gRPC goes on connecting only while somebody waits in
/// it, and calls over a lost connection do not wait.
void AwaitConnection(grpc::Channel& channel);

/// The status of a call over `channel` that finished with `status`; where the
/// connection is at fault rather than the daemon's answer, IsUnreachable()
/// holds and the message names `server`.
absl::Status CallStatus(const grpc::Status& status, grpc::Channel& channel,
                        const std::string& server);

/// How long the daemon was silent before a call ended with `status`; zero if
/// it ended otherwise.
absl::Duration SilenceBefore(const absl::Status& status);

}  // namespace hearth::client

#endif  // HEARTH_CLIENT_CHANNEL_H_
