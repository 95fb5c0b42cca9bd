#ifndef HEARTH_CLIENT_RPC_STATUS_H_
#define HEARTH_CLIENT_RPC_STATUS_H_

#include <string>

#include "absl/status/status.h"

namespace hearth::client {

/// The status of a finished call with canonical code `code` and `message`.
/// `details` is what came with it: a serialized google.rpc.Status, or empty.
/// Fields that a google.rpc.BadRequest in it finds fault with follow the
/// message, as in "invalid job: train.data.epochs: must be at most 10000".
/// Details that cannot be read are left out.
absl::Status RpcStatus(int code, const std::string& message,
                       const std::string& details);

}  // namespace hearth::client

#endif  // HEARTH_CLIENT_RPC_STATUS_H_
