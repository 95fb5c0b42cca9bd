#ifndef HEARTH_CLIENT_CHANNEL_H_
#define HEARTH_CLIENT_CHANNEL_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/status/status.h"

namespace hearth::client {

/// A channel to the daemon at `server`, made for a daemon that restarts: it
/// tries again within a second.
std::shared_ptr<grpc::Channel> NewChannel(const std::string& server);

/// The status of a call over `channel` that finished with `status`; where the
/// connection is at fault rather than the daemon's answer, IsUnreachable()
/// holds and the message names `server`.
absl::Status CallStatus(const grpc::Status& status, grpc::Channel& channel,
                        const std::string& server);

}  // namespace hearth::client

#endif  // HEARTH_CLIENT_CHANNEL_H_
