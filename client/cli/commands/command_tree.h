#ifndef HEARTH_CLIENT_CLI_COMMANDS_COMMAND_TREE_H_
#define HEARTH_CLIENT_CLI_COMMANDS_COMMAND_TREE_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "client/cli/commands/session.h"
#include "client/cli/options/option_flags.h"
#include "client/cli/options/option_values.h"
#include "client/server_choice.h"

/// All commands of `hearth` as one tree of CLI11, which is parsed, completed
/// and written down as manual pages; and the parts that commands share. The Add
/// functions are defined in the files *_commands.cc.

namespace hearth::cli {

/// Validator of an option whose value is one of `words`, in this order; the
/// help shows them. The error for other values names the word that may be
/// meant.
CLI::Validator OneOf(const std::vector<std::string>& words);

/// As OneOf, in alphabetical order; turns the word into its value.
template <typename Value>
CLI::Validator OneOf(const std::map<std::string, Value>& words) {
  std::vector<std::string> names;
  std::map<std::string, std::string> values;
  for (const auto& [name, value] : words) {
    names.push_back(name);
    values[name] = CLI::detail::value_string(value);
  }
  CLI::Validator validator = OneOf(names);
  return validator.operation([names = OneOf(names), values](std::string& text) {
    std::string fault = names(text);
    if (fault.empty()) text = values.at(text);
    return fault;
  });
}

/// Options of a job or a sweep, as a command line gives them.
struct OptionArguments {
  /// Targets of the parser, by flag; the nodes of a map keep their addresses.
  std::map<std::string, std::string> flags = {};
  /// Values of the flags that were given.
  OptionValues values = {};
};

/// Adds a flag to `command` for each of `flags`. `help` and `group` return the
/// texts of a flag. `arguments` must live as long as the command; its values
/// are set when the command's callback calls the result.
std::function<void()> AddOptionFlags(
    CLI::App& command, const std::vector<Flag>& flags,
    OptionArguments& arguments,
    const std::function<std::string(const Flag&)>& help =
        &Flag::HelpWithDefault,
    const std::function<std::string(const Flag&)>& group = &Flag::Heading);

// Each Add function adds the commands that its comment names. Parsing sets
// `chosen` to the action of the command line; `chosen_local` is for actions
// that need no daemon, or choose one themselves.

/// dataset import | upload | uploads | copy | generate | list | show | verify |
/// export | delete
void AddDatasetCommands(CLI::App& app, Action* chosen);

/// dataset import and upload: for AddDatasetCommands.
void AddImportCommands(CLI::App& dataset, Action* chosen);

/// dataset uploads list | delete: for AddDatasetCommands.
void AddUploadsCommands(CLI::App& dataset, Action* chosen);

/// piece, by the program hearth-piece
void AddPieceCommand(CLI::App& app, Action* chosen_local);

/// dataset generate: for AddDatasetCommands.
void AddGenerateCommand(CLI::App& dataset, Action* chosen);

/// train | prepare | explain
void AddTrainCommands(CLI::App& app, Action* chosen);

/// run, with a private daemon
void AddRunCommand(CLI::App& app, Action* chosen_local);

/// plan list | show | delete
void AddPlanCommands(CLI::App& app, Action* chosen);

/// job list | show | watch | logs | cancel | resume | adopt | delete | download
void AddJobCommands(CLI::App& app, Action* chosen);

/// job download: for AddJobCommands.
void AddDownloadCommand(CLI::App& jobs, Action* chosen);

/// job resume: for AddJobCommands.
void AddResumeCommand(CLI::App& jobs, Action* chosen);

/// job adopt: for AddJobCommands.
void AddAdoptCommand(CLI::App& jobs, Action* chosen);

/// sweep submit | list | show | watch | best | pause | resume | stop | add |
/// delete
void AddSweepCommands(CLI::App& app, Action* chosen);

/// evaluate
void AddEvaluateCommand(CLI::App& app, Action* chosen);

/// export
void AddExportCommand(CLI::App& app, Action* chosen);

/// admin backup | drain | token, and certs, which needs no daemon
void AddAdminCommands(CLI::App& app, Action* chosen, Action* chosen_local);

/// admin token create | list | revoke: for AddAdminCommands.
void AddTokenCommands(CLI::App& admin, Action* chosen);

/// admin certs: for AddAdminCommands.
void AddCertsCommand(CLI::App& admin, Action* chosen);

/// context add | use | list | remove
void AddContextCommands(CLI::App& app, Action* chosen);

/// status
void AddStatusCommand(CLI::App& app, Action* chosen);

/// cluster
void AddClusterCommand(CLI::App& app, Action* chosen);

/// top
void AddTopCommand(CLI::App& app, Action* chosen);

/// completion
void AddCompletionCommand(CLI::App& app, Action* chosen_local);

/// doctor, which also works without a daemon
void AddDoctorCommand(CLI::App& app, Action* chosen_local);

/// Flags that may stand before and after every command.
struct GlobalOptions {
  std::string server = {};
  std::string context = {};
  client::CredentialFiles files = {};
  std::string output = "table";
};

/// All commands and flags, and the targets of parsing them.
struct CommandTree {
  CommandTree();
  CommandTree(const CommandTree&) = delete;
  CommandTree& operator=(const CommandTree&) = delete;

  CLI::App app;
  GlobalOptions options;
  /// Action of the command line; null if it is a local one.
  Action action;
  /// Action that needs no daemon, or chooses one itself; null otherwise.
  Action local_action;
};

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_COMMANDS_COMMAND_TREE_H_
