#ifndef HEARTH_CLIENT_CONTEXTS_H_
#define HEARTH_CLIENT_CONTEXTS_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/server_choice.h"

namespace hearth::client {

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

#endif  // HEARTH_CLIENT_CONTEXTS_H_
