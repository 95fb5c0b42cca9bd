#ifndef HEARTH_SERVER_ACCESS_TLS_H_
#define HEARTH_SERVER_ACCESS_TLS_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "server/access/caller.h"
#include "server/front/sockets.h"

namespace hearth::server {

/// PEM files of a TLS address.
struct TlsFiles {
  /// The certificate, and those that vouch for it.
  std::string certificate = {};
  std::string key = {};
  /// Authorities of client certificates, which every client must have then;
  /// empty = none is asked for.
  std::string client_ca = {};
};

/// OK if TLS can be served with the files: they are there and are what they
/// should be, the key is the certificate's and nobody but its owner may read
/// it, and the certificate has not expired at `now`. Errors name the file, and
/// never show what is in it.
absl::Status CheckTlsFiles(const TlsFiles& files, absl::Time now);

/// A connection with TLS, of which this is the server. The handshake is made
/// by the first calls.
class TlsWire : public Wire {
 public:
  /// The name (CN) and the URIs of the client's certificate, which has been
  /// verified; empty = none was asked for. REQUIRES: a byte was read.
  virtual Credentials Party() const = 0;
};

/// Makes connections with TLS. Files that change are read again, within a
/// second; new connections then have the new ones. Single-owner.
class TlsServer {
 public:
  /// Errors as CheckTlsFiles. `clock` must outlive the result.
  static absl::StatusOr<std::unique_ptr<TlsServer>> Make(const TlsFiles& files,
                                                         const Clock& clock);
  virtual ~TlsServer() = default;

  /// For a socket that outlives the result. RESOURCE_EXHAUSTED without memory.
  virtual absl::StatusOr<std::unique_ptr<TlsWire>> NewWire(int socket) = 0;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_ACCESS_TLS_H_
