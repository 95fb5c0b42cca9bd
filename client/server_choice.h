#ifndef HEARTH_CLIENT_SERVER_CHOICE_H_
#define HEARTH_CLIENT_SERVER_CHOICE_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/hearth_client.h"

namespace hearth::client {

/// The whole of a file of at most 1 MiB. Errors name the path, and never show
/// what is in the file.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path);

/// The same for a secret: FAILED_PRECONDITION if everybody may read the file.
absl::StatusOr<std::string> ReadSecret(const std::string& path);

/// Replaces a file at once, mode 0600, and makes its folder, mode 0700.
absl::Status WriteSmallFile(const std::string& path, const std::string& text);

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

/// A daemon, by a name of the user's.
struct Context {
  std::string server = {};
  /// Absolute paths.
  CredentialFiles files = {};
};

/// The daemons that a user has named, and which one is meant where none is
/// given.
struct Contexts {
  std::map<std::string, Context> by_name = {};
  /// Empty = none.
  std::string current = {};
};

/// Where they are kept: $HEARTH_CONTEXTS, else hearth/contexts.json in
/// $XDG_CONFIG_HOME, else in ~/.config. The file holds paths of secrets, not
/// secrets.
std::string ContextsPath();

/// None, where there is no file. DATA_LOSS naming the file for one that is
/// damaged.
absl::StatusOr<Contexts> ReadContexts(const std::string& path);

/// Replaces the file, and makes its folder.
absl::Status WriteContexts(const Contexts& contexts, const std::string& path);

/// NOT_FOUND, naming those that there are, for an unknown name.
absl::StatusOr<Context> FindContext(const Contexts& contexts,
                                    const std::string& name);

/// INVALID_ARGUMENT unless `name` is 1 to 64 letters, digits, "-", "_", ".".
absl::Status CheckContextName(const std::string& name);

}  // namespace hearth::client

#endif  // HEARTH_CLIENT_SERVER_CHOICE_H_
