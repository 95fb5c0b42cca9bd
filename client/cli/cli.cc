#include "client/cli/cli.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/escape.h"
#include "engine/base/version.h"

namespace hearth::cli {
namespace {

constexpr char kHowToStart[] =
    "Is the daemon running? Start it with\n"
    "  hearthd --data-dir DIR\n"
    "or, in the source tree, with deploy/quickstart.sh --keep. Another address "
    "is given with --server or HEARTH_SERVER.\n";

struct GlobalOptions {
  std::string server = client::ClientOptions().server;
  std::string output = "table";
};

void AddGlobalOptions(CLI::App& app, GlobalOptions* options) {
  app.name("hearth");
  app.require_subcommand(1);
  // `hearth train --output json` is the same as `hearth --output json train`.
  app.fallthrough();
  app.set_version_flag("--version", absl::StrCat("hearth ", kVersion));
  app.add_option("--server", options->server, "Address of the daemon")
      ->envname("HEARTH_SERVER")
      ->take_last()
      ->capture_default_str();
  app.add_option("--output", options->output, "What to print: table or json")
      ->check(CLI::IsMember({"table", "json"}))
      ->take_last()
      ->capture_default_str();
}

// Names a mistyped command; the parser says only that a command is missing.
void NameUnknownCommand(const CLI::App& app, Environment& environment) {
  const std::vector<std::string> rest = app.remaining(/*recurse=*/true);
  if (rest.empty() || rest[0].empty() || rest[0][0] == '-') return;
  environment.err << "hearth: unknown: " << EscapeControl(rest[0]) << "\n";
}

int ExitCodeOf(const absl::Status& status) {
  if (client::IsUnreachable(status)) return kExitUnreachable;
  return absl::IsInvalidArgument(status) ? kExitUsage : kExitFailed;
}

int Report(const absl::Status& status, Environment& environment) {
  environment.err << "hearth: " << EscapeControl(std::string(status.message()))
                  << "\n";
  if (client::IsUnreachable(status)) environment.err << kHowToStart;
  return ExitCodeOf(status);
}

void TellSilence(absl::Duration silent, Environment& environment) {
  // A line of progress may stand there.
  if (environment.err_is_terminal) environment.err << "\r\x1b[K";
  if (silent == absl::ZeroDuration()) {
    environment.err << "the daemon answers again" << std::endl;
  } else {
    environment.err << "the daemon has not answered for "
                    << absl::ToInt64Seconds(silent) << " s; still trying"
                    << std::endl;
  }
}

int Perform(const Action& action, const GlobalOptions& options,
            Environment& environment) {
  client::ClientOptions client_options;
  const bool elsewhere = options.server != client_options.server;
  client_options.server = options.server;
  client_options.on_silence = [&environment](absl::Duration silent) {
    TellSilence(silent, environment);
  };
  const std::unique_ptr<client::Client> client =
      client::NewClient(client_options);
  Session session = {
      .client = *client,
      .output = options.output == "json" ? Output::kJson : Output::kTable,
      .environment = environment,
      .server_flag =
          elsewhere ? absl::StrCat(" --server ", options.server) : ""};
  const absl::StatusOr<int> exit_code = action(session);
  if (!exit_code.ok()) return Report(exit_code.status(), environment);
  if (!environment.out.flush()) {
    environment.err << "hearth: cannot write to standard output\n";
    return kExitFailed;
  }
  return *exit_code;
}

}  // namespace

int RunCli(const std::vector<std::string>& arguments,
           Environment& environment) {
  CLI::App app(
      "Trains graph neural networks on graphs that do not fit in "
      "memory, through the daemon hearthd");
  GlobalOptions options;
  Action action;
  AddGlobalOptions(app, &options);
  AddDatasetCommands(app, &action);
  AddTrainCommands(app, &action);
  AddPlanCommands(app, &action);
  AddJobCommands(app, &action);
  AddSweepCommands(app, &action);
  AddEvaluateCommand(app, &action);
  AddExportCommand(app, &action);
  AddAdminCommands(app, &action);
  AddStatusCommand(app, &action);
  // CLI11 reports by exceptions; they end here.
  try {
    // It takes them from the last to the first.
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& error) {
    NameUnknownCommand(app, environment);
    const int code = app.exit(error, environment.out, environment.err);
    return code == 0 ? kExitDone : kExitUsage;
  }
  return Perform(action, options, environment);
}

}  // namespace hearth::cli
