#include "client/cli/commands/command_tree.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/version.h"
#include "proto/options/command_line.h"

namespace hearth::cli {

namespace {

void AddGlobalOptions(CLI::App& app, GlobalOptions* options) {
  app.name("hearth");
  app.require_subcommand(1);
  // `hearth train --output json` is the same as `hearth --output json train`.
  app.fallthrough();
  app.set_version_flag("--version", absl::StrCat("hearth ", kVersion));
  app.add_option("--server", options->server,
                 "Address of the daemon, HOST:PORT or unix:PATH; default the "
                 "socket in the default data directory, else 127.0.0.1:7600")
      ->envname("HEARTH_SERVER")
      ->take_last();
  app.add_option("--context", options->context,
                 "Name of a daemon (see hearth context)")
      ->envname("HEARTH_CONTEXT")
      ->take_last();
  app.add_option("--ca", options->files.ca,
                 "PEM file with the authority that vouches for the daemon; "
                 "the connection is then encrypted")
      ->envname("HEARTH_CA")
      ->take_last();
  app.add_option("--cert", options->files.certificate,
                 "PEM file with the client's certificate")
      ->envname("HEARTH_CERT")
      ->take_last();
  app.add_option("--key", options->files.key,
                 "PEM file with the private key of --cert")
      ->envname("HEARTH_KEY")
      ->take_last();
  app.add_option("--token-file", options->files.token,
                 "File whose first line is a token")
      ->envname("HEARTH_TOKEN_FILE")
      ->take_last();
  app.add_option("--output", options->output, "What to print: table or json")
      ->check(OneOf(std::vector<std::string>{"table", "json"}))
      ->take_last()
      ->capture_default_str();
}

}  // namespace

CLI::Validator OneOf(const std::vector<std::string>& words) {
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

std::function<void()> AddOptionFlags(
    CLI::App& command, const std::vector<Flag>& flags,
    OptionArguments& arguments,
    const std::function<std::string(const Flag&)>& help,
    const std::function<std::string(const Flag&)>& group) {
  std::map<std::string, CLI::Option*> options;
  for (const Flag& flag : flags) {
    // take_last: a script may append to its usual options.
    options[flag.name] = command
                             .add_option(absl::StrCat("--", flag.name),
                                         arguments.flags[flag.name], help(flag))
                             ->type_name(flag.ValueName())
                             ->group(group(flag))
                             ->take_last();
  }
  return [&arguments, options] {
    for (const auto& [name, option] : options) {
      if (option->count() == 0) continue;
      arguments.values[name] = {arguments.flags[name],
                                absl::StrCat("--", name)};
    }
  };
}

CommandTree::CommandTree()
    : app("Trains graph neural networks on graphs that do not fit in "
          "memory, through the daemon hearthd") {
  AddGlobalOptions(app, &options);
  AddDatasetCommands(app, &action);
  AddPieceCommand(app, &local_action);
  AddTrainCommands(app, &action);
  AddRunCommand(app, &local_action);
  AddPlanCommands(app, &action);
  AddJobCommands(app, &action);
  AddSweepCommands(app, &action);
  AddEvaluateCommand(app, &action);
  AddExportCommand(app, &action);
  AddAdminCommands(app, &action, &local_action);
  AddContextCommands(app, &local_action);
  AddStatusCommand(app, &action);
  AddClusterCommand(app, &action);
  AddTopCommand(app, &action);
  AddDoctorCommand(app, &local_action);
  AddCompletionCommand(app, &local_action);
}

}  // namespace hearth::cli
