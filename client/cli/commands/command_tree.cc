#include "client/cli/commands/command_tree.h"

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/version.h"

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

CommandTree::CommandTree()
    : app("Trains graph neural networks on graphs that do not fit in "
          "memory, through the daemon hearthd") {
  AddGlobalOptions(app, &options);
  AddDatasetCommands(app, &action);
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
  AddTopCommand(app, &action);
  AddDoctorCommand(app, &local_action);
  AddCompletionCommand(app, &local_action);
}

}  // namespace hearth::cli
