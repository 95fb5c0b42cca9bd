#ifndef HEARTH_SERVER_LISTEN_ADDRESS_H_
#define HEARTH_SERVER_LISTEN_ADDRESS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hearth::server {

/// Checks an address to listen on, "HOST:PORT" with the number of a network
/// interface (192.0.2.1, [2001:db8::1]; 0.0.0.0 and [::] = all) or localhost,
/// and a PORT of 0 (any free one) to 65535, and returns it with localhost
/// spelled out. INVALID_ARGUMENT if it is malformed.
absl::StatusOr<std::string> ParseListenAddress(absl::string_view address);

/// Whether only this machine reaches an address that ParseListenAddress has
/// returned: 127.0.0.1 or [::1].
bool IsLoopback(absl::string_view address);

/// INVALID_ARGUMENT, for what is served to this machine alone, unless
/// IsLoopback(address).
absl::Status CheckLoopback(absl::string_view address);

/// `address` with its port replaced by `port`.
std::string WithPort(const std::string& address, int port);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_LISTEN_ADDRESS_H_
