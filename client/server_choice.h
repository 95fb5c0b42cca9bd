#ifndef HEARTH_CLIENT_SERVER_CHOICE_H_
#define HEARTH_CLIENT_SERVER_CHOICE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/hearth_client.h"

namespace hearth::client {

/// Whether `server` is on this machine, so that what is sent to it is read by
/// nobody else: one Unix socket or loopback address. Lists of addresses, which
/// gRPC takes, are not looked into: they are not.
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

/// Absolute path of the data directory that a daemon has by default:
/// $HEARTH_HOME, else ~/.hearth.
std::string DefaultDataDir();

/// The daemon's address where none is given: "unix:PATH" of the socket in the
/// default data directory ($HEARTH_HOME, else ~/.hearth) if a daemon listens on
/// it, else 127.0.0.1:7600. There any user of this machine may listen:
/// FAILED_PRECONDITION if `files` has a token, and no authority to tell who
/// does.
absl::StatusOr<std::string> DefaultServer(const CredentialFiles& files);

/// Reads the files into `options`, whose server is set. INVALID_ARGUMENT for
/// files that do not go together, NOT_FOUND and so on for those that cannot be
/// read, FAILED_PRECONDITION for a token that the network would see and for a
/// secret that others can read. Errors never show what is in a file.
absl::Status LoadCredentials(const CredentialFiles& files,
                             ClientOptions& options);

}  // namespace hearth::client

#endif  // HEARTH_CLIENT_SERVER_CHOICE_H_
