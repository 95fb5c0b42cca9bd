#ifndef HEARTH_CLIENT_TLS_H_
#define HEARTH_CLIENT_TLS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/hearth_client.h"

/// TLS by OpenSSL: certificates of a private authority, and the reasons for
/// which a daemon's or a client's certificate is refused.

namespace hearth::client {

/// A certificate and its private key, in PEM form. The key is a secret.
struct KeyPair {
  std::string certificate = {};
  std::string key = {};
};

/// Validity of an authority's certificate.
inline constexpr absl::Duration kAuthorityLifetime = absl::Hours(24 * 3653);

/// A new private authority, which signs certificates of servers and clients.
/// All keys are on the curve P-256.
absl::StatusOr<KeyPair> NewAuthority(absl::Time now);

/// Least size of AuthorityOfSecret's secret, in bytes.
inline constexpr size_t kLeastSecretBytes = 32;

/// The private authority of all who know `secret`, for `run` alone: its key is
/// derived from both (HKDF, RFC 5869), its certificate is new, and vouches for
/// what another one of the same key has signed. INVALID_ARGUMENT for a shorter
/// secret.
absl::StatusOr<KeyPair> AuthorityOfSecret(absl::string_view secret,
                                          absl::string_view run,
                                          absl::Time now);

/// A new certificate of a server that is reached by `hosts`, each a DNS name or
/// an IP address. INVALID_ARGUMENT for no host or another text.
absl::StatusOr<KeyPair> NewServerCertificate(
    const KeyPair& authority, const std::vector<std::string>& hosts,
    absl::Time now, absl::Duration lifetime);

/// A new certificate of the client `name` (1 to 64 letters, digits, "-", "_",
/// ".", "@") with a role ("viewer", "user" or "operator"). INVALID_ARGUMENT for
/// other names and roles.
absl::StatusOr<KeyPair> NewClientCertificate(const KeyPair& authority,
                                             const std::string& name,
                                             const std::string& role,
                                             absl::Time now,
                                             absl::Duration lifetime);

/// A new certificate of the daemon `name` as a member of a cluster, by which it
/// serves the other members and is their client: whoever has it is that member.
/// INVALID_ARGUMENT for a name that is not of 1 to 64 letters, digits, "-", "_"
/// and ".".
absl::StatusOr<KeyPair> NewMemberCertificate(const KeyPair& authority,
                                             const std::string& name,
                                             absl::Time now,
                                             absl::Duration lifetime);

/// Why TLS keeps a connection to the daemon from working, for people: "the
/// daemon asks for a client's certificate, and none was shown; give --cert and
/// --key" (gRPC reports a refused handshake as a broken connection). Makes one
/// connection of its own and takes 5 s at most. Empty where TLS is not the
/// cause: nobody listens, all is well, or the address is no HOST:PORT.
std::string WhyTlsIsRefused(const ClientOptions& options);

}  // namespace hearth::client

#endif  // HEARTH_CLIENT_TLS_H_
