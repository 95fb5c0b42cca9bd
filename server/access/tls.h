#ifndef HEARTH_SERVER_ACCESS_TLS_H_
#define HEARTH_SERVER_ACCESS_TLS_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "server/access/access_control.h"
#include "server/front/sockets.h"

namespace hearth::server {

/// PEM files of a TLS address.
struct TlsFiles {
  /// The certificate, followed by the chain of its issuers.
  std::string certificate = {};
  std::string key = {};
  /// Authorities of client certificates. If set, every client must have a
  /// certificate; empty = none is asked for.
  std::string client_ca = {};
};

/// OK if TLS can be served with the files: they exist and have the right
/// contents, the key belongs to the certificate and only its owner may read it,
/// and the certificate has not expired at `now`. Errors name the file, and
/// never show its contents.
absl::Status CheckTlsFiles(const TlsFiles& files, absl::Time now);

/// A side of a TLS connection. The first calls do the handshake.
class TlsWire : public Wire {
 public:
  /// Name (CN) and URIs of the other side's verified certificate; empty = none
  /// was asked for. REQUIRES: a byte was read or written.
  virtual Credentials PeerCredentials() const = 0;
};

/// Makes the server side of TLS connections. Files that change are read again
/// within a second, for new connections. Single-owner.
class TlsServer {
 public:
  /// Errors as CheckTlsFiles. `clock` must outlive the result.
  static absl::StatusOr<std::unique_ptr<TlsServer>> Make(const TlsFiles& files,
                                                         const Clock& clock);
  virtual ~TlsServer() = default;

  /// Wire of a socket that outlives the result. RESOURCE_EXHAUSTED without
  /// memory.
  virtual absl::StatusOr<std::unique_ptr<TlsWire>> NewWire(int socket) = 0;
};

/// Makes the client side of TLS connections to other daemons, by TLS 1.3.
/// Thread-safe.
class TlsClient {
 public:
  /// The own certificate is that of `files`; the other side's must be of
  /// `files.client_ca`. Errors as CheckTlsFiles; `now` is the time of the
  /// check.
  static absl::StatusOr<std::unique_ptr<TlsClient>> Make(const TlsFiles& files,
                                                         absl::Time now);
  virtual ~TlsClient() = default;

  /// Wire of a connected socket that outlives the result. It breaks unless the
  /// other side's certificate is for the host `name`. RESOURCE_EXHAUSTED
  /// without memory.
  virtual absl::StatusOr<std::unique_ptr<TlsWire>> NewWire(
      int socket, const std::string& name) = 0;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_ACCESS_TLS_H_
