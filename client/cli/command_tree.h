#ifndef HEARTH_CLIENT_CLI_COMMAND_TREE_H_
#define HEARTH_CLIENT_CLI_COMMAND_TREE_H_

#include <CLI/App.hpp>
#include <string>

#include "client/cli/session.h"
#include "client/server_choice.h"

namespace hearth::cli {

/// Flags that are taken before and after every command.
struct GlobalOptions {
  std::string server = {};
  std::string context = {};
  client::CredentialFiles files = {};
  std::string output = "table";
};

/// All commands and flags: parsed, completed, and written down as manual pages.
/// Stays where it is made.
struct CommandTree {
  CommandTree();
  CommandTree(const CommandTree&) = delete;
  CommandTree& operator=(const CommandTree&) = delete;

  CLI::App app;
  /// Targets of parsing: the flags, and one of the actions, of which the latter
  /// asks no daemon, or one that it chooses itself.
  GlobalOptions options;
  Action action;
  Action local_action;
};

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_COMMAND_TREE_H_
