#ifndef HEARTH_CLIENT_CLI_COMMANDS_COMMAND_TREE_H_
#define HEARTH_CLIENT_CLI_COMMANDS_COMMAND_TREE_H_

#include <CLI/App.hpp>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands/completion.h"
#include "client/cli/commands/session.h"
#include "client/server_choice.h"
#include "proto/options/command_line.h"

namespace hearth::cli {

/// For options whose value is one of `words`: refuses all others, naming the
/// one that may be meant, and turns the word into its value. Help shows the
/// words.
template <typename Value>
CLI::Validator OneOf(const std::map<std::string, Value>& words) {
  std::vector<std::string> names;
  for (const auto& [name, value] : words) names.push_back(name);
  return CLI::Validator(
      [words, names](std::string& text) -> std::string {
        const auto found = words.find(text);
        if (found == words.end()) {
          return absl::StrCat("\"", text, "\" is not one of ",
                              absl::StrJoin(names, ", "),
                              options::DidYouMean(text, names));
        }
        text = CLI::detail::value_string(found->second);
        return "";
      },
      absl::StrCat("{", absl::StrJoin(names, ","), "}"));
}

/// The same for options whose value is the word itself; help has them in the
/// order of `words`.
inline CLI::Validator OneOf(const std::vector<std::string>& words) {
  return CLI::Validator(
      [words](std::string& text) -> std::string {
        if (std::find(words.begin(), words.end(), text) != words.end()) {
          return "";
        }
        return absl::StrCat("\"", text, "\" is not one of ",
                            absl::StrJoin(words, ", "),
                            options::DidYouMean(text, words));
      },
      absl::StrCat("{", absl::StrJoin(words, ","), "}"));
}

// Each adds commands to `app`. Parsing sets `chosen` to what the command line
// asks for; nothing is done before the action is called.

/// dataset import | upload | uploads | generate | list | show | verify |
/// export | delete
void AddDatasetCommands(CLI::App& app, Action* chosen);

/// dataset import and upload: for AddDatasetCommands.
void AddImportCommands(CLI::App& dataset, Action* chosen);

/// dataset uploads list | delete: for AddDatasetCommands.
void AddUploadsCommands(CLI::App& dataset, Action* chosen);

/// dataset generate: for AddDatasetCommands.
void AddGenerateCommand(CLI::App& dataset, Action* chosen);

/// train | prepare | explain
void AddTrainCommands(CLI::App& app, Action* chosen);

/// run, which starts a daemon of its own
void AddRunCommand(CLI::App& app, Action* chosen_local);

/// plan list | show | delete
void AddPlanCommands(CLI::App& app, Action* chosen);

/// job list | show | watch | logs | cancel | resume | delete | download
void AddJobCommands(CLI::App& app, Action* chosen);

/// job download: for AddJobCommands.
void AddDownloadCommand(CLI::App& jobs, Action* chosen);

/// job resume: for AddJobCommands.
void AddResumeCommand(CLI::App& jobs, Action* chosen);

/// sweep submit | list | show | watch | best | pause | resume | stop | add |
/// delete
void AddSweepCommands(CLI::App& app, Action* chosen);

/// evaluate
void AddEvaluateCommand(CLI::App& app, Action* chosen);

/// export
void AddExportCommand(CLI::App& app, Action* chosen);

/// admin backup | drain | token | certs, of which the last asks no daemon.
void AddAdminCommands(CLI::App& app, Action* chosen, Action* chosen_local);

/// admin token create | list | revoke: for AddAdminCommands.
void AddTokenCommands(CLI::App& admin, Action* chosen);

/// admin certs: for AddAdminCommands.
void AddCertsCommand(CLI::App& admin, Action* chosen);

/// context add | use | list | remove
void AddContextCommands(CLI::App& app, Action* chosen);

/// status
void AddStatusCommand(CLI::App& app, Action* chosen);

/// top
void AddTopCommand(CLI::App& app, Action* chosen);

/// completion
void AddCompletionCommand(CLI::App& app, Action* chosen_local);

/// Prints the candidates of a completion, those that a daemon or a file of this
/// user knows included, as lines of a word, a tab and its meaning. Gives the
/// exit code.
int PrintCompletion(Completion completion, Session& session);

/// doctor, which asks a daemon only if it answers.
void AddDoctorCommand(CLI::App& app, Action* chosen_local);

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

#endif  // HEARTH_CLIENT_CLI_COMMANDS_COMMAND_TREE_H_
