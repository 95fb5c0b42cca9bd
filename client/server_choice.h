#ifndef HEARTH_CLIENT_SERVER_CHOICE_H_
#define HEARTH_CLIENT_SERVER_CHOICE_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/hearth_client.h"

/// Choice of the daemon and of the credentials it is shown: the default server,
/// contexts that the user has named, and small files with certificates, tokens
/// and contexts.

namespace hearth::client {

/// Contents of a file of at most 1 MiB. Errors name the path and never show
/// contents.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path);

/// Contents of a file with a secret: as ReadSmallFile, but FAILED_PRECONDITION
/// if users outside the file's group may read it.
absl::StatusOr<std::string> ReadSecret(const std::string& path);

/// Replaces a file atomically, mode 0600, and makes its folder, mode 0700.
absl::Status WriteSmallFile(const std::string& path, const std::string& text);

/// Whether `server` is one Unix socket or loopback address of this machine, so
/// that nobody else reads messages to it. False for lists of addresses, which
/// gRPC takes.
bool IsLocal(absl::string_view server);

/// Paths of the client's credentials and of the authority it trusts; empty =
/// none.
struct CredentialFiles {
  /// PEM file of the authorities that vouch for the daemon; with it, the
  /// connection is encrypted (TLS).
  std::string ca = {};
  /// PEM files of the client's certificate and its private key.
  std::string certificate = {};
  std::string key = {};
  /// File whose first line is a token.
  std::string token = {};
};

/// Absolute path of a daemon's default data directory: $HEARTH_HOME, else
/// ~/.hearth.
std::string DefaultDataDir();

/// Address of the daemon where the user gives none: "unix:PATH" of the socket
/// in DefaultDataDir() if a daemon listens on it, else 127.0.0.1:7600, where
/// any user of this machine may listen. FAILED_PRECONDITION instead of the
/// latter if `files` has a token but no authority that identifies the listener.
absl::StatusOr<std::string> DefaultServer(const CredentialFiles& files);

/// Reads the files into `options`, whose server is set. INVALID_ARGUMENT for
/// files that do not go together, NOT_FOUND and the like for files that cannot
/// be read, FAILED_PRECONDITION for a token that would be sent over the network
/// unencrypted and for a secret that others can read. Errors never show
/// contents.
absl::Status LoadCredentials(const CredentialFiles& files,
                             ClientOptions& options);

/// A daemon that the user has named.
struct Context {
  std::string server = {};
  /// Credentials, as absolute paths.
  CredentialFiles files = {};
};

/// All daemons that a user has named, and the current one, which is used where
/// the user names none.
struct Contexts {
  std::map<std::string, Context> by_name = {};
  /// Name of the current context; empty = none.
  std::string current = {};
};

/// Path of the file of contexts: $HEARTH_CONTEXTS, else hearth/contexts.json in
/// $XDG_CONFIG_HOME, else in ~/.config. The file has paths of secrets, no
/// secrets.
std::string ContextsPath();

/// Contexts of the file at `path`; none if there is no file. DATA_LOSS, naming
/// the file, if it is damaged.
absl::StatusOr<Contexts> ReadContexts(const std::string& path);

/// Replaces the file of contexts, and makes its folder.
absl::Status WriteContexts(const Contexts& contexts, const std::string& path);

/// The context called `name`. NOT_FOUND, with the known names.
absl::StatusOr<Context> FindContext(const Contexts& contexts,
                                    const std::string& name);

/// INVALID_ARGUMENT unless `name` is 1 to 64 letters, digits, "-", "_", ".".
absl::Status CheckContextName(const std::string& name);

}  // namespace hearth::client

#endif  // HEARTH_CLIENT_SERVER_CHOICE_H_
