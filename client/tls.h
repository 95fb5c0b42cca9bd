#ifndef HEARTH_CLIENT_TLS_H_
#define HEARTH_CLIENT_TLS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/hearth_client.h"

namespace hearth::client {

/// A certificate and its private key, in PEM form. The key is a secret.
struct KeyPair {
  std::string certificate = {};
  std::string key = {};
};

/// How long the certificate of an authority is valid.
inline constexpr absl::Duration kAuthorityLifetime = absl::Hours(24 * 3653);

/// A private authority, which vouches for certificates of servers and clients.
/// All keys are of the curve P-256.
absl::StatusOr<KeyPair> NewAuthority(absl::Time now);

/// A certificate of a server that is reached by `hosts`: names, or numbers of
/// interfaces. INVALID_ARGUMENT for no host and for one that is neither.
absl::StatusOr<KeyPair> NewServerCertificate(
    const KeyPair& authority, const std::vector<std::string>& hosts,
    absl::Time now, absl::Duration lifetime);

/// A certificate of the client `name` (1 to 64 letters, digits, "-", "_", ".",
/// "@") with a role ("viewer", "user" or "operator").
absl::StatusOr<KeyPair> NewClientCertificate(const KeyPair& authority,
                                             const std::string& name,
                                             const std::string& role,
                                             absl::Time now,
                                             absl::Duration lifetime);

/// Why no encrypted connection to the daemon comes about, for people: "the
/// daemon asks for a client's certificate, and none was shown; give --cert and
/// --key". gRPC tells refused handshakes as connections that broke. Makes one
/// connection of its own, and waits for 5 s at most. Empty where TLS is not the
/// matter: nobody listens, all is well, or the address is no HOST:PORT.
std::string WhyTlsIsRefused(const ClientOptions& options);

}  // namespace hearth::client

#endif  // HEARTH_CLIENT_TLS_H_
