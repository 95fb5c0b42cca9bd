#ifndef HEARTH_SERVER_LISTEN_ADDRESS_H_
#define HEARTH_SERVER_LISTEN_ADDRESS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hearth::server {

/// Checks an address to listen on, "HOST:PORT" with a loopback HOST (127.x.y.z,
/// [::1] or localhost) and a PORT of 0 (any free one) to 65535, and returns it
/// with localhost spelled out. INVALID_ARGUMENT if it is malformed or reachable
/// from other machines, which connections are not protected for.
absl::StatusOr<std::string> ParseListenAddress(absl::string_view address);

/// `address` with its port replaced by `port`.
std::string WithPort(const std::string& address, int port);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_LISTEN_ADDRESS_H_
