#ifndef HEARTH_SERVER_ACCESS_TLS_H_
#define HEARTH_SERVER_ACCESS_TLS_H_

#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

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

/// Credentials that read the files again when they change, within 5 s; new
/// connections then have the new ones. REQUIRES: CheckTlsFiles was OK.
std::shared_ptr<grpc::ServerCredentials> NewTlsCredentials(
    const TlsFiles& files);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_ACCESS_TLS_H_
