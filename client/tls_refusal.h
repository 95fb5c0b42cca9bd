#ifndef HEARTH_CLIENT_TLS_REFUSAL_H_
#define HEARTH_CLIENT_TLS_REFUSAL_H_

#include <string>

#include "client/hearth_client.h"

namespace hearth::client {

/// Why no encrypted connection to the daemon comes about, for people: "the
/// daemon asks for a client's certificate, and none was shown; give --cert and
/// --key". gRPC tells refused handshakes as connections that broke. Makes one
/// connection of its own, and waits for 5 s at most. Empty where TLS is not the
/// matter: nobody listens, all is well, or the address is no HOST:PORT.
std::string WhyTlsIsRefused(const ClientOptions& options);

}  // namespace hearth::client

#endif  // HEARTH_CLIENT_TLS_REFUSAL_H_
