#ifndef HEARTH_SERVER_FRONT_TCP_H_
#define HEARTH_SERVER_FRONT_TCP_H_

#include <string>

#include "absl/status/statusor.h"
#include "engine/io/descriptor.h"

namespace hearth::server {

/// A non-blocking socket that listens on `address`, as ParseListenAddress
/// returns it; its port is taken by it alone. UNAVAILABLE if it cannot.
absl::StatusOr<io::Descriptor> ListenOnTcp(const std::string& address);

/// The port that a listening socket has.
int PortOf(int listener);

/// The address at the other side of a connection, without the port: the number
/// of an IPv4 interface, or the first 64 bits of that of an IPv6 one, all of
/// which one host commonly has. Sends what it is given without delay from now
/// on.
absl::StatusOr<std::string> ReceiveTcp(int connection);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_FRONT_TCP_H_
