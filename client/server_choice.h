#ifndef HEARTH_CLIENT_SERVER_CHOICE_H_
#define HEARTH_CLIENT_SERVER_CHOICE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/hearth_client.h"

namespace hearth::client {

/// The daemon's address where none is given: "unix:PATH" of the socket in the
/// default data directory ($HEARTH_HOME, else ~/.hearth) if a daemon listens on
/// it, else 127.0.0.1:7600.
std::string DefaultServer();

/// Whether `server` is on this machine, so that what is sent to it is read by
/// nobody else: a Unix socket or a loopback address.
bool IsLocal(absl::string_view server);

/// Files that say who the client is, and whom it trusts; empty = none.
struct CredentialFiles {
  /// PEM: the authorities that vouch for the daemon. With it, the connection is
  /// encrypted (TLS).
  std::string ca = {};
  /// PEM: the client's certificate and its private key.
  std::string certificate = {};
  std::string key = {};
  /// A token.
  std::string token = {};
};

/// Reads the files into `options`, whose server is set. INVALID_ARGUMENT for
/// files that do not go together, NOT_FOUND and so on for those that cannot be
/// read, FAILED_PRECONDITION for a token that the network would see and for a
/// secret that others can read. Errors never show what is in a file.
absl::Status LoadCredentials(const CredentialFiles& files,
                             ClientOptions& options);

}  // namespace hearth::client

#endif  // HEARTH_CLIENT_SERVER_CHOICE_H_
